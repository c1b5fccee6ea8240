#include "xla_patch/hlo/proto/backend_config.h"

#include <charconv>
#include <utility>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/types/json_text.h"

namespace xla_shmem::hlo {
namespace {

// An int64 as proto3's JSON writes it, in quotes, or as a number.
std::optional<int64_t> ParseInt(std::string_view text) {
  if (text.size() > 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = problem == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional<int64_t>(value) : std::nullopt;
}

std::optional<std::vector<int64_t>> ParseInts(std::string_view list) {
  std::vector<int64_t> values;
  JsonCursor cursor(list);
  if (!cursor.Accept('[')) return std::nullopt;
  while (!cursor.Accept(']')) {
    std::string_view text;
    const std::optional<int64_t> value = cursor.Value(&text) ? ParseInt(text) : std::nullopt;
    if (!value.has_value()) return std::nullopt;
    values.push_back(*value);
    cursor.Accept(',');
  }
  return values;
}

}  // namespace

std::string_view ResolvePayload(const std::vector<std::string_view>& payloads, std::string_view payload) {
  std::string_view value;
  FieldReader reader(payload);
  for (Field field; reader.Next(&field);) {
    if (field.number == PayloadField::kValue) {
      value = field.bytes;
    } else if (field.number == PayloadField::kId) {
      value = field.value < payloads.size() ? payloads[field.value] : std::string_view();
    }
  }
  return value;
}

std::string_view BackendConfigOf(const std::vector<std::string_view>& payloads, std::string_view instruction) {
  std::string_view config;
  std::string_view payload;
  FieldReader reader(instruction);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kBackendConfig) {
      config = field.bytes;
    } else if (field.number == InstructionField::kBackendConfigPayload) {
      payload = ResolvePayload(payloads, field.bytes);
    }
  }
  return config.empty() ? payload : config;
}

std::optional<Backend> ReadStockBackend(std::string_view json) {
  std::string_view config;
  if (!FindMember(json, "collective_backend_config", &config) || config.front() != '{') return std::nullopt;
  std::string_view backend;
  if (!FindMember(config, "backend", &backend)) return Backend::kDefault;  // proto3 JSON leaves the default value out
  // CollectiveBackendConfig.CollectiveBackend: DEFAULT = 0, NVSHMEM = 1.
  return backend == "\"NVSHMEM\"" || backend == "1" ? Backend::kNvshmem : Backend::kDefault;
}

XlaKernel ReadXlaKernel(std::string_view json) {
  std::string_view config;
  std::string_view kernel;
  if (!FindMember(json, "collective_backend_config", &config) || !FindMember(config, "kernel_strategy", &kernel)) {
    return XlaKernel::kNone;
  }
  // CollectiveBackendConfig.CollectiveKernelStrategy.
  if (kernel == "\"KERNEL_STRATEGY_TRITON_ONE_SHOT\"" || kernel == "1") return XlaKernel::kOneShot;
  if (kernel == "\"KERNEL_STRATEGY_TRITON_TWO_SHOT\"" || kernel == "2") return XlaKernel::kTwoShot;
  return XlaKernel::kNone;
}

void ReadModeAndSync(std::string_view json, XlaChoice* choice) {
  std::string_view config;
  std::string_view member;
  if (!FindMember(json, "collective_backend_config", &config)) return;
  choice->is_sync = FindMember(config, "is_sync", &member) && member == "true";
  // DebugOptions.CollectivesMode.
  constexpr std::pair<std::string_view, const char*> kModes[] = {{"\"COLLECTIVES_PRIVATE_MEMORY\"", "private"},
                                                                 {"\"COLLECTIVES_SYMMETRIC_MEMORY\"", "symmetric"},
                                                                 {"\"COLLECTIVES_PEER_MEMORY\"", "peer"}};
  if (!FindMember(config, "collectives_mode", &member)) return;
  for (const auto& [name, mode] : kModes) {
    if (member == name) choice->mode = mode;
  }
}

std::optional<int64_t> ReadTripCount(std::string_view json) {
  std::string_view count;
  if (!FindMember(json, "known_trip_count", &json) || !FindMember(json, "n", &count)) return std::nullopt;
  const std::optional<int64_t> trips = ParseInt(count);
  return trips.value_or(-1) >= 0 ? trips : std::nullopt;
}

std::optional<std::vector<int64_t>> ReadContractedDimensions(std::string_view json) {
  std::string_view list;
  if (!FindMember(json, "gemm_backend_config", &json) || !FindMember(json, "dot_dimension_numbers", &json) ||
      !FindMember(json, "lhs_contracting_dimensions", &list)) {
    return std::nullopt;
  }
  return ParseInts(list);
}

std::optional<FusedAttention> ReadFusedAttention(std::string_view json) {
  std::string_view shape;
  std::string_view list;
  std::string_view mask;
  std::string_view window;
  if (!FindMember(json, "cudnn_fmha_backend_config", &json) || !FindMember(json, "intermediate_tensor_shape", &shape) ||
      !FindMember(shape, "dimensions", &list) || !FindMember(json, "mask_type", &mask)) {
    return std::nullopt;
  }
  const bool is_causal = mask == "\"CAUSAL\"";
  const bool has_window = FindMember(json, "sliding_window_length", &window) && ParseInt(window) != 0;
  std::optional<std::vector<int64_t>> scores = ParseInts(list);
  if (!scores.has_value() || scores->size() != 4 || has_window || !(is_causal || mask == "\"NO_MASK\"")) {
    return std::nullopt;
  }
  return FusedAttention{*std::move(scores), is_causal};
}

}  // namespace xla_shmem::hlo
