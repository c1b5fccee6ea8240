// Modules: kernels and variables of a text.
#include <cstdlib>
#include <cstring>

#include "ptx/decoder.h"
#include "ptx/kernel.h"
#include "ptx/ptx.h"

namespace ptx {
namespace {

constexpr size_t kGlobalAlignment = 256;  // that of the driver's allocations

// "0f3F800000", "-5", "7": bits. False for what is no number, such as the address of another variable.
bool InitialBits(const std::string& text, uint64_t* bits) {
  const bool hexadecimal_float = text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1]) != nullptr;
  const bool negative = text[0] == '-';
  char* end = nullptr;
  const char* const digits = text.c_str() + (hexadecimal_float ? 2 : negative ? 1 : 0);
  const uint64_t magnitude = strtoull(digits, &end, hexadecimal_float ? 16 : 0);
  *bits = negative ? 0 - magnitude : magnitude;
  return end != digits && (*end == '\0' || strcmp(end, "U") == 0);
}

void AddGlobal(Module* module, const Declaration& declaration) {
  Global& global = module->globals[declaration.name];
  const size_t element = BytesOf(TypeOf(declaration.type));
  global.bytes = element * declaration.elements;
  if (declaration.external || element == 0) {
    global.refusal = "variable " + declaration.name + " has no content";
    return;
  }
  if (declaration.values.size() > declaration.elements)
    global.refusal = "variable " + declaration.name + " has too many values";
  global.storage.assign(global.bytes + kGlobalAlignment, 0);
  const auto address = reinterpret_cast<uintptr_t>(global.storage.data());
  global.memory = global.storage.data() + (AlignUp(address, kGlobalAlignment) - address);
  for (size_t k = 0; k < declaration.values.size() && global.refusal.empty(); ++k) {
    uint64_t bits = 0;
    if (!InitialBits(declaration.values[k], &bits)) {
      global.refusal = "value '" + declaration.values[k] + "' of variable " + declaration.name + " is not understood";
    }
    memcpy(global.memory + k * element, &bits, element);
  }
}

void AddKernel(Module* module, FunctionSyntax syntax) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = syntax.name;
  kernel->module = module;
  kernel->syntax = std::move(syntax);
  const auto size_in = [](const std::vector<size_t>& sizes, size_t k) {
    return static_cast<unsigned>(k < sizes.size() ? sizes[k] : 1);
  };
  const std::vector<size_t>& required = kernel->syntax.required_block;
  if (!required.empty()) kernel->required_block = {size_in(required, 0), size_in(required, 1), size_in(required, 2)};
  const std::vector<size_t>& maximal = kernel->syntax.maximal_block;
  if (!maximal.empty())
    kernel->maximal_threads = size_t{size_in(maximal, 0)} * size_in(maximal, 1) * size_in(maximal, 2);
  Decoder(*module, kernel.get()).Run();
  module->kernels[kernel->name] = std::move(kernel);
}

}  // namespace

std::shared_ptr<Module> Parse(const char* text, std::string* error) {
  error->clear();
  // The licence of NVIDIA's compilers may not allow to run their output elsewhere, and nothing here needs it.
  if (strstr(text, "NVIDIA NVVM Compiler") != nullptr) {
    *error = "line 1: compiled by NVIDIA's compiler, which the emulator does not run";
    return nullptr;
  }
  ModuleSyntax syntax;
  if (!ParseSyntax(text, &syntax, error)) return nullptr;
  auto module = std::make_shared<Module>();
  for (const Declaration& variable : syntax.variables) {
    if (variable.space == "shared") {
      module->shared[variable.name] = variable;
    } else {
      AddGlobal(module.get(), variable);
    }
  }
  for (FunctionSyntax& function : syntax.functions) {
    // A function that a kernel calls is refused where it is called.
    if (function.entry) AddKernel(module.get(), std::move(function));
  }
  for (const auto& [name, kernel] : module->kernels) {
    for (const std::string& refusal : kernel->refusals) *error += (error->empty() ? "" : "; ") + name + ": " + refusal;
  }
  return module;
}

const Kernel* FindKernel(const Module& module, const std::string& name) {
  const auto found = module.kernels.find(name);
  return found == module.kernels.end() ? nullptr : found->second.get();
}

void* FindGlobal(Module& module, const std::string& name, size_t* bytes) {
  const auto found = module.globals.find(name);
  if (found == module.globals.end()) return nullptr;
  *bytes = found->second.bytes;
  return found->second.memory;
}

size_t SharedBytes(const Kernel& kernel) { return kernel.shared_bytes; }

std::vector<char> PackArguments(const Kernel& kernel, void** parameters) {
  std::vector<char> arguments(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    memcpy(arguments.data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].bytes);
  }
  return arguments;
}

}  // namespace ptx
