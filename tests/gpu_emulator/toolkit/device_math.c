// The device math library that XLA links into its kernels instead of libdevice: each function that XLA may call leaves
// the calculation to the interpreter, which has the same function of the C library. So the results are those of the
// host's C library, for f32 and for f64. What is one instruction is left to the compiler.
//
// Compiled to bitcode for nvptx64 by build_device_math.sh.

#define DEFINE(type, name, suffix, parameters, arguments)        \
  type emulator_##name##suffix parameters;                       \
  __attribute__((always_inline)) type __nv_##name##suffix parameters { return emulator_##name##suffix arguments; }

#define MATH_UNARY(name)                      \
  DEFINE(double, name, , (double a), (a))     \
  DEFINE(float, name, f, (float a), (a))
#define MATH_BINARY(name)                               \
  DEFINE(double, name, , (double a, double b), (a, b))  \
  DEFINE(float, name, f, (float a, float b), (a, b))
#include "../ptx/math_functions.def"

#define DEFINE_BUILTIN(type, name, suffix, parameters, arguments) \
  __attribute__((always_inline)) type __nv_##name##suffix parameters { return __builtin_##name##suffix arguments; }
#define BUILTIN_UNARY(name)                        \
  DEFINE_BUILTIN(double, name, , (double a), (a))  \
  DEFINE_BUILTIN(float, name, f, (float a), (a))
BUILTIN_UNARY(ceil)
BUILTIN_UNARY(fabs)
BUILTIN_UNARY(floor)
BUILTIN_UNARY(nearbyint)
BUILTIN_UNARY(rint)
BUILTIN_UNARY(sqrt)
BUILTIN_UNARY(trunc)
DEFINE_BUILTIN(double, copysign, , (double a, double b), (a, b))
DEFINE_BUILTIN(float, copysign, f, (float a, float b), (a, b))
DEFINE_BUILTIN(double, fma, , (double a, double b, double c), (a, b, c))
DEFINE_BUILTIN(float, fma, f, (float a, float b, float c), (a, b, c))

// Names that are not "function" and "functionf".
#define FAST_UNARY(name) \
  __attribute__((always_inline)) float __nv_fast_##name##f(float a) { return emulator_##name##f(a); }
FAST_UNARY(cos)
FAST_UNARY(exp)
FAST_UNARY(log)
FAST_UNARY(log10)
FAST_UNARY(log2)
FAST_UNARY(sin)
FAST_UNARY(tan)
FAST_UNARY(tanh)
__attribute__((always_inline)) float __nv_fast_powf(float a, float b) { return emulator_powf(a, b); }
__attribute__((always_inline)) double __nv_powi(double a, int b) { return emulator_pow(a, b); }
// In double, which holds every int.
__attribute__((always_inline)) float __nv_powif(float a, int b) { return (float)emulator_pow(a, b); }
