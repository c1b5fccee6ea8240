#include "xla_patch/assigner/tuning_file.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/json_text.h"

namespace xla_shmem {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Status Unusable(const std::string& why) { return Status::Error(why + "; run `xla-shmem tune` again."); }

std::string_view Member(std::string_view object, std::string_view name) {
  std::string_view found;
  return FindMember(object, name, &found) ? found : std::string_view();
}

// The text of a member that is a string without escapes.
std::string_view TextMember(std::string_view object, std::string_view name) {
  std::string_view text;
  JsonCursor cursor(Member(object, name));
  return cursor.String(&text) ? text : std::string_view();
}

// None unless it is a whole number of at least 1.
std::optional<int64_t> CountMember(std::string_view object, std::string_view name) {
  const std::string_view text = Member(object, name);
  int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem != std::errc() || end != text.data() + text.size() || count < 1) return std::nullopt;
  return count;
}

// None unless they are a median within its interval.
std::optional<BackendTime> ReadTimes(std::string_view times) {
  const auto us = [&](std::string_view name) {
    const std::string text(Member(times, name));
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return text.empty() || *end != '\0' ? std::nan("") : value;
  };
  const BackendTime time = {us("median_us"), us("low_us"), us("high_us")};
  const bool is_median = 0 < time.low_us && time.low_us <= time.us && time.us <= time.high_us;
  return is_median && std::isfinite(time.high_us) ? std::optional<BackendTime>(time) : std::nullopt;
}

// None if times are damaged. Files of versions 1 and 2 have no ways.
std::optional<WayTimes> ReadWays(std::string_view object) {
  WayTimes ways;
  for (const WayInfo& info : kWays) {
    const std::string_view text = object.empty() ? std::string_view() : Member(object, info.word);
    if (text.empty()) continue;
    const std::optional<BackendTime> time = ReadTimes(text);
    if (!time.has_value()) return std::nullopt;
    ways.emplace_back(info.way, *time);
  }
  return ways;
}

std::optional<TuningRow> ReadRow(std::string_view row) {
  const std::optional<CollectiveOp> op = OpNamed(TextMember(row, "op"));
  const std::optional<ElementType> type = ElementTypeNamed(TextMember(row, "dtype"));
  const std::optional<int64_t> group = CountMember(row, "group");
  const std::optional<int64_t> bytes = CountMember(row, "bytes");
  const std::optional<BackendTime> nvshmem = ReadTimes(Member(row, "nvshmem"));
  const std::string_view text = Member(row, "default");
  const std::optional<BackendTime> on_default = text == "null" ? BackendTime{kNever, kNever, kNever} : ReadTimes(text);
  // Files of version 1 do not have it.
  std::optional<WayTimes> ways = ReadWays(Member(row, "ways"));
  const std::optional<int64_t> domains = Member(row, "domains").empty() ? 1 : CountMember(row, "domains");
  if (!op.has_value() || !type.has_value() || !group.has_value() || !bytes.has_value() || !nvshmem.has_value() ||
      !on_default.has_value() || !domains.has_value() || !ways.has_value()) {
    return std::nullopt;
  }
  return TuningRow{*op, *type, *group, *bytes, *nvshmem, *on_default, *domains, *std::move(ways)};
}

}  // namespace

Result<TuningFile> ReadTuningFile(std::string_view text) {
  if (TextMember(text, "format") != "xla-shmem tuning table") {
    return Unusable("is not a tuning table (no \"format\": \"xla-shmem tuning table\")");
  }
  const std::string_view version = Member(text, "version");
  if (version != "1" && version != "2" && version != "3") {
    return Unusable("has version " + std::string(version) + " and not 3");
  }
  if (Member(text, "complete") != "true") return Unusable("is incomplete, because `xla-shmem tune` was stopped");
  std::vector<TuningRow> rows;
  JsonCursor cursor(Member(text, "rows"));
  bool has_more = cursor.Accept('[');
  while (has_more && !cursor.Accept(']')) {
    std::string_view row_text;
    const std::optional<TuningRow> row = cursor.Value(&row_text) ? ReadRow(row_text) : std::nullopt;
    if (!row.has_value()) return Unusable("is damaged (row " + std::to_string(rows.size() + 1) + ")");
    rows.push_back(*row);
    cursor.Accept(',');
  }
  if (rows.empty()) return Unusable("is damaged (no rows)");
  Result<TuningTable> table = TuningTable::Create(std::move(rows));
  if (!table.ok()) return Unusable("is damaged (" + table.message() + ")");
  return TuningFile{std::string(TextMember(text, "platform")), Member(text, "fingerprint"), *std::move(table)};
}

}  // namespace xla_shmem
