// CUDA's built-in names, as far as our own device code uses them, for clang. Compiled before each source by nvrtc.cc;
// like NVRTC it has no other headers.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

#define GPU_EMULATOR_BUILTIN(type, name, register)                                                            \
  static __device__ inline type gpu_emulator_##name() {                                                       \
    return {unsigned(__nvvm_read_ptx_sreg_##register##_x()), unsigned(__nvvm_read_ptx_sreg_##register##_y()), \
            unsigned(__nvvm_read_ptx_sreg_##register##_z())};                                                 \
  }
GPU_EMULATOR_BUILTIN(uint3, threadIdx, tid)
GPU_EMULATOR_BUILTIN(uint3, blockIdx, ctaid)
GPU_EMULATOR_BUILTIN(dim3, blockDim, ntid)
GPU_EMULATOR_BUILTIN(dim3, gridDim, nctaid)
#undef GPU_EMULATOR_BUILTIN
#define threadIdx gpu_emulator_threadIdx()
#define blockIdx gpu_emulator_blockIdx()
#define blockDim gpu_emulator_blockDim()
#define gridDim gpu_emulator_gridDim()

static __device__ inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
static __device__ inline unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
