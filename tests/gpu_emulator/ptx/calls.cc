// call: of the functions that our device math library leaves to the interpreter (math_functions.def).
#include <cmath>
#include <map>
#include <string>

#include "ptx/decoder.h"

namespace ptx {
namespace {

double rsqrt(double value) { return 1 / std::sqrt(value); }
// In double: a single rounding at the end.
float rsqrtf(float value) { return static_cast<float>(rsqrt(value)); }

template <typename T, T (*kFunction)(T)>
void CallUnary(Warp& warp, const Instruction& i) {
  ForActiveLanes(warp, [&](int lane) { Lane<T>(warp, i.d)[lane] = kFunction(Lane<T>(warp, i.vector[0])[lane]); });
}
template <typename T, T (*kFunction)(T, T)>
void CallBinary(Warp& warp, const Instruction& i) {
  const T* const a = Lane<T>(warp, i.vector[0]);
  const T* const b = Lane<T>(warp, i.vector[1]);
  ForActiveLanes(warp, [&](int lane) { Lane<T>(warp, i.d)[lane] = kFunction(a[lane], b[lane]); });
}

struct Function {
  Handler run;
  size_t arguments;
  size_t bytes;  // of each argument and of the result
};

const std::map<std::string, Function>& Functions() {
#define MATH_BOTH(Caller, name, count)                                \
  {"emulator_" #name, {Caller<double, name>, count, sizeof(double)}}, \
      {"emulator_" #name "f", {Caller<float, name##f>, count, sizeof(float)}},
#define MATH_UNARY(name) MATH_BOTH(CallUnary, name, 1)
#define MATH_BINARY(name) MATH_BOTH(CallBinary, name, 2)
  static const std::map<std::string, Function> functions = {
#include "ptx/math_functions.def"
  };
#undef MATH_UNARY
#undef MATH_BINARY
#undef MATH_BOTH
  return functions;
}

// call (result), name, (arguments): all of them parameters that the statements before it have declared.
Handler DecodeCall(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  decoding.Take("uni");
  const bool has_result = decoding.operand(0).kind == Operand::Kind::kGroup;
  const Operand& name = decoding.operand(has_result ? 1 : 0);
  const auto function = Functions().find(name.parts.empty() ? "" : name.parts[0]);
  if (function == Functions().end()) {
    decoding.Refuse("there is no function " + (name.parts.empty() ? "" : name.parts[0]));
    return nullptr;
  }
  const Operand& result = decoding.operand(0);
  const Operand& arguments = decoding.operand(2);
  if (!has_result || result.parts.size() != 1 || arguments.parts.size() != function->second.arguments) return nullptr;
  const auto parameter = [&](const std::string& text) {
    uint32_t reg = kSink;
    size_t bytes = 0;
    if (!decoding.CallParameter(text, &reg, &bytes)) decoding.Refuse("unknown parameter " + text);
    if (bytes != function->second.bytes) decoding.Refuse("parameter " + text + " has another size than the function's");
    return reg;
  };
  i.d = parameter(result.parts[0]);
  for (const std::string& argument : arguments.parts) i.vector.push_back(parameter(argument));
  return function->second.run;
}

}  // namespace

const Opcodes& CallOpcodes() {
  static const Opcodes opcodes = {{"call", DecodeCall}};
  return opcodes;
}

}  // namespace ptx
