#include "xla_patch/runtime/measured_operation.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

class Recorded : public Operation {
 public:
  explicit Recorded(std::string* calls) : calls_(calls) {}
  bool Poll() override {
    *calls_ += "poll ";
    return false;
  }
  bool made_progress() const override { return true; }
  void OnSubmit() override { *calls_ += "submit "; }
  std::string Describe(const std::set<int>& pes) const override { return "recorded " + std::to_string(pes.size()); }
  std::set<int> WaitsFor() const override { return {3}; }
  void Abandon() override { *calls_ += "abandon "; }

 private:
  std::string* const calls_;
};

TEST_CASE("Measuring an operation changes nothing of what the engine sees") {
  std::string calls;
  MeasuredOperation operation(std::make_unique<Recorded>(&calls), std::make_shared<uint64_t>(0));
  CHECK_FALSE(operation.Poll());
  CHECK(operation.made_progress());
  operation.OnSubmit();
  CHECK(operation.Describe({1, 2}) == "recorded 2");
  CHECK(operation.WaitsFor() == std::set<int>{3});
  operation.Abandon();
  CHECK(calls == "poll submit abandon ");
}

}  // namespace
}  // namespace xla_shmem
