#include "xla_patch/hlo/proto/backend_config.h"

#include <doctest/doctest.h>

#include "xla_patch/hlo/proto/mlir_dictionary.h"

namespace xla_shmem::hlo {
namespace {

TEST_CASE("the recorded backend is found with older and newer fields around it") {
  CHECK(
      ReadStockBackend(R"({"operation_queue_id":"0","wait_on_operation_queues":[],"collective_backend_config":)"
                       R"({"is_sync":false,"no_parallel_custom_call":false,"is_pipelined":false,"backend":"NVSHMEM"},)"
                       R"("force_earliest_schedule":false})") == Backend::kNvshmem);
  CHECK(ReadStockBackend(R"({ "collective_backend_config" : { "backend" : "DEFAULT" } })") == Backend::kDefault);
  CHECK(ReadStockBackend(R"({"collective_backend_config":{"backend":1}})") == Backend::kNvshmem);
}

TEST_CASE("a collective config without the field means DEFAULT, none at all means nothing") {
  CHECK(ReadStockBackend(R"({"collective_backend_config":{"is_sync":true}})") == Backend::kDefault);
  CHECK(ReadStockBackend(R"({"collective_backend_config":{}})") == Backend::kDefault);
  CHECK(ReadStockBackend(R"({"gemm_backend_config":{}})") == std::nullopt);
  CHECK(ReadStockBackend("") == std::nullopt);
}

TEST_CASE("a trip count is read as XLA writes it, as text or as a number, and nothing else is one") {
  CHECK(ReadTripCount(R"({"known_trip_count":{"n":"32"},"known_init_step":{"init":"0","step":"1"}})") == 32);
  CHECK(ReadTripCount(R"({"known_trip_count":{"n":4}})") == 4);
  for (const char* text : {"", "{}", R"({"known_trip_count":{}})", R"({"known_trip_count":{"n":"x"}})",
                           R"({"known_trip_count":{"n":"-1"}})", R"({"known_trip_count":{"n":""}})",
                           R"({"known_trip_count":{"n":"99999999999999999999"}})", R"({"n":"3"})"}) {
    CHECK(ReadTripCount(text) == std::nullopt);
  }
}

TEST_CASE("mode and sync of a collective are read from its config alone, and an unknown mode is none") {
  XlaChoice choice;
  ReadModeAndSync(R"({"collective_backend_config":{"collectives_mode":"COLLECTIVES_PEER_MEMORY","is_sync":true}})",
                  &choice);
  CHECK(choice.mode == "peer");
  CHECK(choice.is_sync);
  for (const char* json : {"", "{", R"({"collectives_mode":"COLLECTIVES_PEER_MEMORY","is_sync":true})",
                           R"({"collective_backend_config":{"collectives_mode":"COLLECTIVES_MODE_INVALID"}})",
                           R"({"collective_backend_config":{"collectives_mode":"COLLECTIVES_NEW","is_sync":false}})"}) {
    XlaChoice none;
    ReadModeAndSync(json, &none);
    CHECK(none.mode.empty());
    CHECK_FALSE(none.is_sync);
  }
}

TEST_CASE("similar text in strings and other objects is ignored") {
  CHECK(ReadStockBackend(R"({"note":"\"collective_backend_config\":{\"backend\":\"NVSHMEM\"}"})") == std::nullopt);
  CHECK(ReadStockBackend(R"({"a":{"collective_backend_config":{"backend":"NVSHMEM"}}})") == std::nullopt);
  CHECK(ReadStockBackend(R"({"collective_backend_config":{"x":{"backend":"NVSHMEM"}}})") == Backend::kDefault);
  CHECK(ReadStockBackend(R"({"backend":"NVSHMEM","collective_backend_config":{}})") == Backend::kDefault);
  CHECK(ReadStockBackend(R"({"collective_backend_config":{"a":"}\\","backend":"NVSHMEM"}})") == Backend::kNvshmem);
  CHECK(ReadStockBackend(R"({"collective_backend_config":{"a":"\"","backend":"NVSHMEM"}})") == Backend::kNvshmem);
}

TEST_CASE("text that is not JSON gives nothing and terminates") {
  for (const char* text : {"{", "{\"a", "{\"a\":", "{\"a\":}", "[", "{{{{", "{\"collective_backend_config\":",
                           "{a = 1 : i64}", "{\"collective_backend_config\":\"x\"}", "{\"a\"\\"}) {
    CHECK(ReadStockBackend(text) == std::nullopt);
  }
  CHECK(ReadStockBackend("{\"a\":" + std::string(1000000, '[')) == std::nullopt);
}

TEST_CASE("dictionaries are MLIR text") {
  MlirDictionary dictionary;
  CHECK(dictionary.Text() == "{}");
  dictionary.AddInt("op", -55);
  dictionary.AddInts("pairs", {0, 1});
  dictionary.AddInts("none", {});
  CHECK(dictionary.Text() == "{op = -55 : i64, pairs = array<i64: 0, 1>, none = array<i64>}");
}

TEST_CASE("odd characters in names are escaped") {
  MlirDictionary dictionary;
  dictionary.AddString("name", "a\"b\\c\nd\xc3\xa9");
  CHECK(dictionary.Text() == R"({name = "a\22b\5Cc\0Ad\C3\A9"})");
}

TEST_CASE("the contracted dimensions of a matrix product are read") {
  const auto config = [](const std::string& list) {
    return R"({"gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":)" + list +
           R"(,"rhs_batch_dimensions":["0"]},"epilogue":"DEFAULT"},"operation_queue_id":"0"})";
  };
  CHECK(ReadContractedDimensions(config(R"(["1"])")) == std::vector<int64_t>{1});
  CHECK(ReadContractedDimensions(config(R"([2, "0"])")) == std::vector<int64_t>{2, 0});
  CHECK(ReadContractedDimensions(config("[]")) == std::vector<int64_t>{});
  for (const char* list : {"", "1", "[", R"(["x"])", "[,]", "{}"}) {
    CHECK_FALSE(ReadContractedDimensions(config(list)).has_value());
  }
  CHECK_FALSE(ReadContractedDimensions(R"({"collective_backend_config":{}})").has_value());
}

TEST_CASE("the scores of attention by cuDNN are read, and which of them it computes") {
  const auto config = [](const std::string& rest, const std::string& dimensions = R"(["1","32","64","128"])") {
    return R"({"operation_queue_id":"0","cudnn_fmha_backend_config":{"intermediate_tensor_shape":{"dimensions":)" +
           dimensions + R"(,"layout":{"minor_to_major":["3"]}},"mask_type":)" + rest + "}}";
  };
  for (const bool is_causal : {false, true}) {
    const std::string mask = is_causal ? R"("CAUSAL")" : R"("NO_MASK")";
    const auto attention = ReadFusedAttention(config(mask + R"(,"sliding_window_length":0)"));
    REQUIRE(attention.has_value());
    CHECK(attention->scores == std::vector<int64_t>{1, 32, 64, 128});
    CHECK(attention->is_causal == is_causal);
  }
  CHECK_FALSE(ReadFusedAttention(config(R"("PADDING")")).has_value());
  CHECK_FALSE(ReadFusedAttention(config(R"("CAUSAL","sliding_window_length":7)")).has_value());
  CHECK_FALSE(ReadFusedAttention(config(R"("CAUSAL","sliding_window_length":"x")")).has_value());
  for (const char* dimensions : {"", "1", "[", R"(["1","2","3"])", R"(["1","2","3","x"])", "[]"}) {
    CHECK_FALSE(ReadFusedAttention(config(R"("NO_MASK")", dimensions)).has_value());
  }
  CHECK_FALSE(ReadFusedAttention(R"({"gemm_backend_config":{}})").has_value());
}

TEST_CASE("lists are read back from a dictionary, past strings that look like them") {
  MlirDictionary dictionary;
  dictionary.AddString("name", "x\", pairs = array<i64: 7>");
  dictionary.AddInts("pairs", {0, -1, int64_t{1} << 40});
  dictionary.AddInts("groups", {});
  std::vector<int64_t> values;
  REQUIRE(ReadInts(dictionary.Text(), "pairs", &values));
  CHECK(values == std::vector<int64_t>{0, -1, int64_t{1} << 40});
  REQUIRE(ReadInts(dictionary.Text(), "groups", &values));
  CHECK(values.empty());
  CHECK_FALSE(ReadInts(dictionary.Text(), "airs", &values));
  for (const char* text :
       {"", "{pairs = array<i64: 1", "{pairs = array<i64: x>}", "{pairs = array<i64:", "{pairs = 3}"}) {
    CHECK_FALSE(ReadInts(text, "pairs", &values));
  }
}

}  // namespace
}  // namespace xla_shmem::hlo
