#include "xla_patch/assigner/tuning.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace xla_shmem {
namespace {

constexpr ElementType kBf16 = ElementType::kBf16, kF16 = ElementType::kF16, kF32 = ElementType::kF32,
                      kF64 = ElementType::kF64, kS16 = ElementType::kS16, kS32 = ElementType::kS32;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TuningRow Row(CollectiveOp op, ElementType type, int64_t group, int64_t bytes, double nvshmem, double on_default) {
  return {op, type, group, bytes, {nvshmem, nvshmem, nvshmem}, {on_default, on_default, on_default}};
}

TuningTable Make(std::vector<TuningRow> rows) {
  auto made = TuningTable::Create(std::move(rows));
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

std::string ErrorOf(std::vector<TuningRow> rows) { return TuningTable::Create(std::move(rows)).message(); }

TuningTable Sizes() {
  return Make({Row(CollectiveOp::kAllReduce, kF32, 4, 4096, 100, 10),
               Row(CollectiveOp::kAllReduce, kF32, 4, 64, 1, 1000),
               Row(CollectiveOp::kAllReduce, kF32, 4, 1024, 10, 100)});
}

TEST_CASE("a measured size is taken as it was measured") {
  const std::optional<Estimate> found = Sizes().Find(CollectiveOp::kAllReduce, kF32, 4, 1024);
  REQUIRE(found.has_value());
  CHECK(found->nvshmem.us == 10);
  CHECK(found->on_default.us == 100);
  CHECK(found->smaller == 1024);
  CHECK(found->larger == 1024);
}

TEST_CASE("between two sizes times lie on a line in the logarithms") {
  // 256 B is half the way from 64 B to 1 KiB, 2 KiB half the way to 4 KiB.
  const std::optional<Estimate> found = Sizes().Find(CollectiveOp::kAllReduce, kF32, 4, 256);
  REQUIRE(found.has_value());
  CHECK(found->nvshmem.us == doctest::Approx(std::sqrt(10.0)));
  CHECK(found->on_default.us == doctest::Approx(std::sqrt(1e5)));
  CHECK(found->smaller == 64);
  CHECK(found->larger == 1024);
  CHECK(Sizes().Find(CollectiveOp::kAllReduce, kF32, 4, 2048)->nvshmem.us == doctest::Approx(std::sqrt(1e3)));
}

TEST_CASE("the ends of an interval are interpolated as the median is") {
  const TuningTable table = Make({{CollectiveOp::kAllGather, kF32, 2, 100, {10, 10, 20}, {10, 1, 10}},
                                  {CollectiveOp::kAllGather, kF32, 2, 10000, {1000, 90, 2000}, {10, 4, 1000}}});
  const std::optional<Estimate> found = table.Find(CollectiveOp::kAllGather, kF32, 2, 1000);
  CHECK(found->nvshmem.us == doctest::Approx(100));
  CHECK(found->nvshmem.low_us == doctest::Approx(30));
  CHECK(found->nvshmem.high_us == doctest::Approx(200));
  CHECK(found->on_default.low_us == doctest::Approx(2));
  CHECK(found->on_default.high_us == doctest::Approx(100));
}

TEST_CASE("outside the measured range the nearest end holds") {
  for (const int64_t bytes : {int64_t{-5}, int64_t{0}, int64_t{63}}) {
    const std::optional<Estimate> below = Sizes().Find(CollectiveOp::kAllReduce, kF32, 4, bytes);
    CHECK(below->nvshmem.us == 1);
    CHECK(below->smaller == 64);
    CHECK(below->larger == 64);
  }
  const std::optional<Estimate> above = Sizes().Find(CollectiveOp::kAllReduce, kF32, 4, INT64_MAX);
  CHECK(above->on_default.us == 10);
  CHECK(above->smaller == 4096);
}

TEST_CASE("an op that was not measured has no times") {
  CHECK_FALSE(Sizes().Find(CollectiveOp::kAllGather, kF32, 4, 1024).has_value());
  CHECK_FALSE(TuningTable().Find(CollectiveOp::kAllReduce, kF32, 4, 1024).has_value());
}

TEST_CASE("the nearest group size by ratio is taken, the larger of two") {
  const TuningTable table =
      Make({Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, 1), Row(CollectiveOp::kAllReduce, kF32, 8, 64, 1, 1)});
  const auto group_for = [&](int64_t group) {
    return table.Find(CollectiveOp::kAllReduce, kF32, group, 64)->group_size;
  };
  CHECK(group_for(2) == 2);
  CHECK(group_for(3) == 2);
  CHECK(group_for(4) == 8);
  CHECK(group_for(64) == 8);
  CHECK(group_for(1) == 2);
  CHECK(group_for(0) == 2);
}

TEST_CASE("group size goes before element type") {
  const TuningTable table =
      Make({Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, 1), Row(CollectiveOp::kAllReduce, kF16, 8, 64, 1, 1)});
  const std::optional<Estimate> found = table.Find(CollectiveOp::kAllReduce, kF32, 8, 64);
  CHECK(found->group_size == 8);
  CHECK(found->element_type == kF16);
}

TEST_CASE("the nearest element type is the same, then one of its kind and width") {
  const TuningTable table =
      Make({Row(CollectiveOp::kAllReduce, kS32, 2, 64, 1, 1), Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, 1),
            Row(CollectiveOp::kAllReduce, kF16, 2, 64, 1, 1)});
  const auto type_for = [&](ElementType type) {
    return table.Find(CollectiveOp::kAllReduce, type, 2, 64)->element_type;
  };
  CHECK(type_for(kF32) == kF32);
  CHECK(type_for(kF64) == kF32);
  CHECK(type_for(kBf16) == kF16);
  CHECK(type_for(kS16) == kS32);
  CHECK(type_for(ElementType::kPred) == kS32);
  CHECK(type_for(ElementType::kC64) == kF32);
  // Whatever a corrupt module says.
  CHECK(table.Find(CollectiveOp::kAllReduce, static_cast<ElementType>(-77), INT64_MAX, INT64_MIN).has_value());
}

TEST_CASE("curves of different keys do not mix") {
  const TuningTable table =
      Make({Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, 1), Row(CollectiveOp::kAllReduce, kF32, 4, 1024, 5, 5),
            Row(CollectiveOp::kCollectivePermute, kF32, 2, 4096, 7, 7)});
  CHECK(table.Find(CollectiveOp::kAllReduce, kF32, 2, 512)->nvshmem.us == 1);
  CHECK(table.Find(CollectiveOp::kAllReduce, kF32, 4, 64)->nvshmem.us == 5);
  CHECK(table.Find(CollectiveOp::kAllReduce, kF32, 4, 1 << 20)->nvshmem.us == 5);
}

TuningRow Across(int64_t domains, int64_t group, int64_t bytes, double nvshmem) {
  TuningRow row = Row(CollectiveOp::kAllReduce, kF32, group, bytes, nvshmem, 1);
  row.domains = domains;
  return row;
}

TEST_CASE("groups of one domain and of several are looked up apart") {
  const TuningTable table = Make({Across(1, 8, 64, 10), Across(2, 8, 64, 20), Across(2, 8, 4096, 40)});
  const auto found = [&](int64_t bytes, int64_t domains) {
    return table.Find(CollectiveOp::kAllReduce, kF32, 8, bytes, domains);
  };
  CHECK(table.Find(CollectiveOp::kAllReduce, kF32, 8, 4096)->nvshmem.us == 10);
  CHECK(found(64, 1)->domains == 1);
  CHECK(found(64, 2)->nvshmem.us == 20);
  CHECK(found(512, 2)->nvshmem.us == doctest::Approx(std::sqrt(800.0)));
  CHECK(found(4096, 2)->domains == 2);
  const TuningTable within = Make({Across(1, 8, 64, 10)});
  CHECK_FALSE(within.Find(CollectiveOp::kAllReduce, kF32, 8, 64, 2).has_value());
  const TuningTable across = Make({Across(2, 8, 64, 10)});
  CHECK_FALSE(across.Find(CollectiveOp::kAllReduce, kF32, 8, 64).has_value());
}

TEST_CASE("the nearest number of domains goes before the group size, the larger of two") {
  const TuningTable table =
      Make({Across(2, 16, 64, 1), Across(8, 8, 64, 2), Across(8, 32, 64, 3), Across(1, 16, 64, 4)});
  const auto us_for = [&](int64_t domains, int64_t group) {
    return table.Find(CollectiveOp::kAllReduce, kF32, group, 64, domains)->nvshmem.us;
  };
  CHECK(us_for(2, 8) == 1);
  CHECK(us_for(3, 32) == 1);
  CHECK(us_for(4, 16) == 3);  // as near to 2 as to 8; and 16 is as near to 8 as to 32
  CHECK(us_for(4, 15) == 2);
  CHECK(us_for(64, 64) == 3);
}

TEST_CASE("a backend that does not run an op has infinite time, also between sizes") {
  const TuningTable table = Make({Row(CollectiveOp::kCollectiveBroadcast, kF32, 2, 64, 1, kNever),
                                  Row(CollectiveOp::kCollectiveBroadcast, kF32, 2, 4096, 3, kNever),
                                  Row(CollectiveOp::kCollectiveBroadcast, kF32, 2, 65536, 3, 5)});
  for (const int64_t bytes : {64, 100, 4096, 5000}) {
    const std::optional<Estimate> found = table.Find(CollectiveOp::kCollectiveBroadcast, kF32, 2, bytes);
    CHECK(std::isinf(found->on_default.us));
    CHECK(std::isinf(found->on_default.low_us));
    CHECK(Compare(found->nvshmem, found->on_default) == Faster::kNvshmem);
  }
}

TEST_CASE("medians are told apart unless one lies in the other's interval") {
  CHECK(Compare({10, 8, 12}, {13, 11, 15}) == Faster::kNvshmem);
  CHECK(Compare({13, 11, 15}, {10, 8, 12}) == Faster::kDefault);
  CHECK(Compare({10, 8, 13}, {13, 11, 15}) == Faster::kNeither);
  CHECK(Compare({10, 8, 12}, {13, 10, 15}) == Faster::kNeither);
  CHECK(Compare({10, 10, 10}, {10, 10, 10}) == Faster::kNeither);
  // Two peaks far apart: the interval is wide, and all of it is slower.
  CHECK(Compare({21, 15, 40}, {1422, 165, 4100}) == Faster::kNvshmem);
}

TEST_CASE("impossible rows are refused by name") {
  const TuningRow good = Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, 2);
  CHECK(ErrorOf({good, Row(CollectiveOp::kAllGather, kF32, 2, 64, 1, 1), good}) ==
        "all-reduce of 64 B (f32, groups of 2) occurs twice");
  CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, kF32, 2, 0, 1, 1)}).find("size must be at least 1") !=
        std::string::npos);
  CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, kF32, 0, 64, 1, 1)}).find("at least 1") != std::string::npos);
  CHECK(ErrorOf({Across(0, 2, 64, 1)}).find("domains and group size must be at least 1") != std::string::npos);
  CHECK(ErrorOf({Across(2, 4, 64, 1), Across(1, 4, 64, 1)}).empty());
  CHECK(ErrorOf({Across(2, 4, 64, 1), Across(2, 4, 64, 3)}) ==
        "all-reduce of 64 B (f32, groups of 4, 2 NVLink domains) occurs twice");
  CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, ElementType::kTuple, 2, 64, 1, 1)}) == "element type 13 has no size");
  for (const double us : {0.0, -1.0, kNaN}) {
    CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, kF32, 2, 64, us, 1)}).find("times must be above 0") !=
          std::string::npos);
    CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, kF32, 2, 64, 1, us)}).find("times must be above 0") !=
          std::string::npos);
  }
  for (const BackendTime& outside : {BackendTime{1, 2, 3}, BackendTime{4, 2, 3}, BackendTime{1, kNaN, 3}}) {
    TuningRow row = good;
    row.on_default = outside;
    CHECK(ErrorOf({row}).find("a median within its interval") != std::string::npos);
  }
  CHECK(ErrorOf({Row(CollectiveOp::kAllReduce, kF32, 2, 64, kNever, 1)}).find("must be finite") != std::string::npos);
  TuningRow half = good;
  half.on_default = {1, 1, kNever};
  CHECK(ErrorOf({half}).find("all of the default backend infinite") != std::string::npos);
}

TEST_CASE("times of other ways are interpolated where both sizes have them, and must be finite") {
  TuningRow small = {CollectiveOp::kAllGather, ElementType::kF32, 4, 1024, {10, 9, 11}, {20, 19, 21}};
  TuningRow large = small;
  large.bytes = 4096;
  small.ways = {{Way::kPeerCopies, {3, 3, 3}}, {Way::kOneSided, {4, 2, 8}}};
  large.ways = {{Way::kOneSided, {16, 8, 32}}};
  const Result<TuningTable> table = TuningTable::Create({large, small});
  REQUIRE(table.ok());
  const auto middle = table->Find(CollectiveOp::kAllGather, ElementType::kF32, 4, 2048);
  REQUIRE(middle.has_value());
  REQUIRE(middle->ways.size() == 1);
  CHECK(middle->ways[0].first == Way::kOneSided);
  CHECK(middle->ways[0].second.us == doctest::Approx(8));
  CHECK(table->Find(CollectiveOp::kAllGather, ElementType::kF32, 4, 1024)->ways.size() == 2);
  large.ways = {{Way::kOneSided, {16, 8, std::numeric_limits<double>::infinity()}}};
  CHECK_FALSE(TuningTable::Create({large}).ok());
  large.ways = {{Way::kOneSided, {1, 8, 32}}};
  CHECK_FALSE(TuningTable::Create({large}).ok());
}

}  // namespace
}  // namespace xla_shmem
