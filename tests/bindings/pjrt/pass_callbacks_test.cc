#include "xla_patch/bindings/pjrt/pass_callbacks.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem::pjrt {
namespace {

// Calls as XLA does: passes bytes, reads the answer, then releases it.
struct Answer {
  bool has_error = false;
  bool changed = false;
  std::string text;  // the module, or the error
};

Answer Call(PassHook& hook, const std::string& module,
            size_t struct_size = XLA_SHMEM_PJRT_SIZE(TransformArgs, changed)) {
  PassCallbacks pass(&hook);
  TransformArgs args{};
  args.struct_size = struct_size;
  args.header.api_version = kTransformVersion;
  args.module = {module.data(), module.size()};
  pass.callbacks()->transform(pass.callbacks(), &args);
  Answer answer{args.header.has_error, args.changed, ""};
  const Text text = answer.has_error ? args.header.message : args.transformed;
  if (text.data != nullptr) {
    answer.text.assign(text.data, text.size);
  }
  if (args.header.cleanup != nullptr) {
    args.header.cleanup(args.header.data);
  }
  return answer;
}

PassOptions Options() { return test::MakeOptions(Lowering::kGpu); }

TEST_CASE("XLA gets the bytes that the pass makes") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const std::string module = test::WrappedModule();
  const Answer answer = Call(hook, module);
  CHECK_FALSE(answer.has_error);
  CHECK(answer.changed);
  CHECK(answer.text == test::Run(module, Options()).module);
}

TEST_CASE("XLA gets no bytes for a module that needs no change") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const test::Message shape = test::ArrayShape({8});
  const std::string module =
      test::Module({test::Computation("main", 1, {test::Instruction("p", "parameter", shape, 1)}, 1)}, 1).str();
  const Answer answer = Call(hook, module);
  CHECK_FALSE(answer.has_error);
  CHECK_FALSE(answer.changed);
  CHECK(answer.text.empty());
}

TEST_CASE("Errors and exceptions reach XLA as a message that starts with our name") {
  PassHook hook(Lowering::kGpu);
  const Answer unknown = Call(hook, test::AsyncModule());
  CHECK(unknown.has_error);
  CHECK_FALSE(unknown.changed);
  CHECK(unknown.text == "xla_shmem: the compiler pass has not been told about the job's devices");
  hook.SetConnect([]() -> Status { throw std::runtime_error("no interpreter"); });
  CHECK(Call(hook, test::AsyncModule()).text == "xla_shmem: no interpreter");
}

TEST_CASE("A module that the pass cannot read comes back unchanged") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const Answer answer = Call(hook, "\x0b");
  CHECK_FALSE(answer.has_error);
  CHECK_FALSE(answer.changed);
}

TEST_CASE("Arguments of an older layout are refused, and no field past their end is touched") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const Answer header_only = Call(hook, test::WrappedModule(), XLA_SHMEM_PJRT_SIZE(TransformArgs, header));
  CHECK(header_only.has_error);
  CHECK(header_only.text == "xla_shmem: the GPU plugin's XlaTransform arguments are too short");
  CHECK_FALSE(Call(hook, test::WrappedModule(), sizeof(size_t)).has_error);
}

}  // namespace
}  // namespace xla_shmem::pjrt
