#include "xla_patch/runtime/pass_hook.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem {
namespace {

PassOptions Options() { return test::MakeOptions(Lowering::kGpu); }

std::string ErrorOf(PassHook& hook) {
  const Result<PassResult> result = hook.Run(test::AsyncModule());
  return result.ok() ? "" : result.message();
}

TEST_CASE("The hook runs the pass with the options that were set") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const std::string module = test::WrappedModule();
  const Result<PassResult> result = hook.Run(module);
  REQUIRE(result.ok());
  CHECK(result->changed);
  CHECK(result->module == test::Run(module, Options()).module);
}

TEST_CASE("The hook of a platform lowers for that platform") {
  const std::string module = test::WrappedModule();
  for (const Lowering lowering : {Lowering::kCpu, Lowering::kGpu}) {
    PassHook hook(lowering);
    hook.SetOptions(Options());
    CHECK(hook.Run(module)->module == test::Run(module, test::MakeOptions(lowering)).module);
  }
}

TEST_CASE("A module that needs no change comes back unchanged") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const test::Message shape = test::ArrayShape({8});
  const std::string module =
      test::Module({test::Computation("main", 1, {test::Instruction("p", "parameter", shape, 1)}, 1)}, 1).str();
  const Result<PassResult> result = hook.Run(module);
  REQUIRE(result.ok());
  CHECK_FALSE(result->changed);
}

TEST_CASE("A module that the pass cannot read stays as it is, and the user is told why") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  const Result<PassResult> result = hook.Run("\x0b");
  REQUIRE(result.ok());
  CHECK_FALSE(result->changed);
  CHECK(result->records.empty());
  CHECK(result->unread.find("not a well-formed HloModuleProto") == 0);
  CHECK(hook.Run(test::AsyncModule())->unread == "");
}

TEST_CASE("The first module asks for the job, and later ones do not") {
  PassHook hook(Lowering::kGpu);
  int asked = 0;
  hook.SetConnect([&] {
    ++asked;
    hook.SetOptions(Options());
    return Status();
  });
  CHECK(ErrorOf(hook) == "");
  CHECK(ErrorOf(hook) == "");
  CHECK(asked == 1);
  hook.Reset();
  CHECK(ErrorOf(hook) == "");
  CHECK(asked == 2);
}

TEST_CASE("An unknown job fails the compilation with the reason") {
  PassHook hook(Lowering::kGpu);
  CHECK(ErrorOf(hook) == "the compiler pass has not been told about the job's devices");
  hook.SetConnect([] { return Status::Error("process 3 does not answer"); });
  CHECK(ErrorOf(hook) == "process 3 does not answer");
  hook.SetConnect([] { return Status(); });
  CHECK(ErrorOf(hook) == "the job's devices are still not known");
}

TEST_CASE("Aliased parameters are copied if the platform needs it, whichever is set first") {
  const std::string module = test::WrappedModule();
  PassOptions copying = Options();
  copying.copy_aliased_parameters = true;
  const std::string expected = test::Run(module, copying).module;
  PassHook before(Lowering::kGpu);
  before.SetCopiesAliasedParameters(true);
  before.SetOptions(Options());
  CHECK(before.Run(module)->module == expected);
  PassHook after(Lowering::kGpu);
  after.SetOptions(Options());
  after.SetCopiesAliasedParameters(true);
  CHECK(after.Run(module)->module == expected);
}

TEST_CASE("The observer is called for modules with collectives") {
  PassHook hook(Lowering::kGpu);
  hook.SetOptions(Options());
  std::vector<std::string> seen;
  hook.SetObserver([&](std::string_view module, const std::vector<CollectiveRecord>& records) {
    CHECK(module == test::WrappedModule());
    for (const CollectiveRecord& record : records) {
      seen.push_back(record.name);
    }
  });
  CHECK(hook.Run(test::WrappedModule()).ok());
  CHECK(seen == std::vector<std::string>{"cp-start", "ar-start", "ar1-start"});
}

TEST_CASE("Compilations on several threads at once agree") {
  PassHook hook(Lowering::kGpu);
  hook.SetConnect([&] {
    hook.SetOptions(Options());
    return Status();
  });
  const std::string module = test::WrappedModule();
  const std::string expected = test::Run(module, Options()).module;
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        const Result<PassResult> result = hook.Run(module);
        equal += result.ok() && result->module == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(equal == 80);
}

}  // namespace
}  // namespace xla_shmem
