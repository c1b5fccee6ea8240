#include "xla_patch/bindings/pjrt/pass_hook.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem::pjrt {
namespace {

// What XLA does with the callbacks: hands over bytes, reads the answer, lets go of it.
struct Answer {
  bool has_error = false;
  bool changed = false;
  std::string text;  // the module, or the error
};

Answer Call(PassHook& hook, const std::string& module,
            size_t struct_size = XLA_SHMEM_PJRT_SIZE(TransformArgs, changed)) {
  TransformArgs args{};
  args.struct_size = struct_size;
  args.header.api_version = kTransformVersion;
  args.module = {module.data(), module.size()};
  hook.callbacks()->transform(hook.callbacks(), &args);
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
  PassHook hook;
  hook.SetOptions(Options());
  const std::string module = test::WrappedModule();
  const Answer answer = Call(hook, module);
  CHECK_FALSE(answer.has_error);
  CHECK(answer.changed);
  CHECK(answer.text == test::Run(module, Options()).module);
}

TEST_CASE("a module that needs no change gives nothing back") {
  PassHook hook;
  hook.SetOptions(Options());
  const test::Message shape = test::ArrayShape({8});
  const std::string module =
      test::Module({test::Computation("main", 1, {test::Instruction("p", "parameter", shape, 1)}, 1)}, 1).str();
  const Answer answer = Call(hook, module);
  CHECK_FALSE(answer.has_error);
  CHECK_FALSE(answer.changed);
  CHECK(answer.text.empty());
}

TEST_CASE("bytes that are no module are an error of that compilation") {
  PassHook hook;
  hook.SetOptions(Options());
  const Answer answer = Call(hook, "\x0b");
  CHECK(answer.has_error);
  CHECK_FALSE(answer.changed);
  CHECK(answer.text.find("xla_shmem: not a well-formed HloModuleProto") == 0);
}

TEST_CASE("the job is asked for at the first module, and only then") {
  PassHook hook;
  int asked = 0;
  hook.SetConnect([&]() -> std::string {
    ++asked;
    hook.SetOptions(Options());
    return "";
  });
  CHECK(Call(hook, test::AsyncModule()).changed);
  CHECK(Call(hook, test::AsyncModule()).changed);
  CHECK(asked == 1);
  hook.Reset();
  CHECK(Call(hook, test::AsyncModule()).changed);
  CHECK(asked == 2);
}

TEST_CASE("a job that cannot be known fails the compilation with the reason") {
  PassHook hook;
  CHECK(Call(hook, test::AsyncModule()).text ==
        "xla_shmem: the compiler pass has not been told about the job's devices");
  hook.SetConnect([]() -> std::string { return "process 3 does not answer"; });
  CHECK(Call(hook, test::AsyncModule()).text == "xla_shmem: process 3 does not answer");
  hook.SetConnect([]() -> std::string { return ""; });
  CHECK(Call(hook, test::AsyncModule()).text == "xla_shmem: the job's devices are still not known");
  hook.SetConnect([]() -> std::string { throw std::runtime_error("no interpreter"); });
  CHECK(Call(hook, test::AsyncModule()).text == "xla_shmem: no interpreter");
}

TEST_CASE("the observer is told of modules with collectives") {
  PassHook hook;
  hook.SetOptions(Options());
  std::vector<std::string> seen;
  hook.SetObserver([&](std::string_view module, const std::vector<CollectiveRecord>& records) {
    CHECK(module == test::WrappedModule());
    for (const CollectiveRecord& record : records) {
      seen.push_back(record.name);
    }
  });
  Call(hook, test::WrappedModule());
  CHECK(seen == std::vector<std::string>{"cp-start", "ar-start", "ar1-start"});
}

TEST_CASE("arguments of an older layout are refused without touching what is not there") {
  PassHook hook;
  hook.SetOptions(Options());
  const Answer header_only = Call(hook, test::WrappedModule(), XLA_SHMEM_PJRT_SIZE(TransformArgs, header));
  CHECK(header_only.has_error);
  CHECK(header_only.text == "xla_shmem: the GPU plugin's XlaTransform arguments are too short");
  CHECK_FALSE(Call(hook, test::WrappedModule(), sizeof(size_t)).has_error);
}

TEST_CASE("compilations on several threads at once agree") {
  PassHook hook;
  hook.SetConnect([&]() -> std::string {
    hook.SetOptions(Options());
    return "";
  });
  const std::string module = test::WrappedModule();
  const std::string expected = test::Run(module, Options()).module;
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        equal += Call(hook, module).text == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(equal == 80);
}

}  // namespace
}  // namespace xla_shmem::pjrt
