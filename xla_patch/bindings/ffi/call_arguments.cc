#include "xla_patch/bindings/ffi/call_arguments.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// XLA numbers its FFI's types as PrimitiveType.
constexpr ElementType ToElementType(ffi::DataType type) { return static_cast<ElementType>(type); }
static_assert(ToElementType(ffi::DataType::PRED) == ElementType::kPred);
static_assert(ToElementType(ffi::DataType::S8) == ElementType::kS8);
static_assert(ToElementType(ffi::DataType::S16) == ElementType::kS16);
static_assert(ToElementType(ffi::DataType::S32) == ElementType::kS32);
static_assert(ToElementType(ffi::DataType::S64) == ElementType::kS64);
static_assert(ToElementType(ffi::DataType::U8) == ElementType::kU8);
static_assert(ToElementType(ffi::DataType::U16) == ElementType::kU16);
static_assert(ToElementType(ffi::DataType::U32) == ElementType::kU32);
static_assert(ToElementType(ffi::DataType::U64) == ElementType::kU64);
static_assert(ToElementType(ffi::DataType::F16) == ElementType::kF16);
static_assert(ToElementType(ffi::DataType::F32) == ElementType::kF32);
static_assert(ToElementType(ffi::DataType::F64) == ElementType::kF64);
static_assert(ToElementType(ffi::DataType::C64) == ElementType::kC64);
static_assert(ToElementType(ffi::DataType::BF16) == ElementType::kBf16);
static_assert(ToElementType(ffi::DataType::C128) == ElementType::kC128);
static_assert(ToElementType(ffi::DataType::F8E5M2) == ElementType::kF8E5M2);
static_assert(ToElementType(ffi::DataType::F8E4M3FN) == ElementType::kF8E4M3Fn);
static_assert(ToElementType(ffi::DataType::F8E4M3B11FNUZ) == ElementType::kF8E4M3B11Fnuz);
static_assert(ToElementType(ffi::DataType::F8E5M2FNUZ) == ElementType::kF8E5M2Fnuz);
static_assert(ToElementType(ffi::DataType::F8E4M3FNUZ) == ElementType::kF8E4M3Fnuz);
static_assert(ToElementType(ffi::DataType::F8E4M3) == ElementType::kF8E4M3);
static_assert(ToElementType(ffi::DataType::F8E3M4) == ElementType::kF8E3M4);
static_assert(ToElementType(ffi::DataType::F8E8M0FNU) == ElementType::kF8E8M0Fnu);

Status NotOurs(const std::string& fault) { return Status::Error(fault + "; it was not written by this xla-shmem"); }

template <typename T>
Result<T> ReadAttribute(ffi::Dictionary attributes, const char* name) {
  const ffi::ErrorOr<T> read = attributes.get<T>(name);
  if (read.has_error()) return NotOurs(std::string("a call has no ") + name);
  return *read;
}

}  // namespace

ffi::Error ToError(const Status& status) { return ffi::Error::Internal("xla_shmem: " + status.message()); }

Result<CallIdentity> ReadIdentity(ffi::Dictionary attributes) {
  const Result<int64_t> operation = ReadAttribute<int64_t>(attributes, "op");
  if (!operation.ok()) return operation.status();
  const Result<std::string> module = ReadString(attributes, "module");
  if (!module.ok()) return module.status();
  const Result<std::string> name = ReadString(attributes, "name");
  if (!name.ok()) return name.status();
  CallIdentity identity{static_cast<uint64_t>(*operation), *module + "/" + *name, ""};
  if (attributes.contains("source")) {
    Result<std::string> source = ReadString(attributes, "source");
    if (!source.ok()) return source.status();
    identity.source = *std::move(source);
  }
  return identity;
}

Result<std::string> ReadString(ffi::Dictionary attributes, const char* name) {
  const Result<std::string_view> read = ReadAttribute<std::string_view>(attributes, name);
  if (!read.ok()) return read.status();
  return std::string(*read);
}

Result<observe::Origin> ReadOrigin(ffi::Dictionary attributes) {
  observe::Origin origin;
  if (!attributes.contains("form")) return origin;
  for (const auto& [name, number] : {std::pair("program", &origin.program), {"form", &origin.form}}) {
    const Result<int64_t> read = ReadInt(attributes, name);
    if (!read.ok()) return read.status();
    *number = static_cast<uint64_t>(*read);
  }
  if (!attributes.contains("place")) return origin;
  for (const auto& [name, number] : {std::pair("place", &origin.place), {"part", &origin.part}}) {
    const Result<int64_t> read = ReadInt(attributes, name);
    if (!read.ok()) return read.status();
    *number = static_cast<uint32_t>(*read);
  }
  Result<std::string> contents = ReadString(attributes, "contents");
  if (!contents.ok()) return contents.status();
  origin.contents = *std::move(contents);
  for (const auto& [name, numbers] :
       {std::pair("operand_sources", &origin.operand_sources), {"branches", &origin.branches}}) {
    if (!attributes.contains(name)) continue;
    const Result<std::vector<int64_t>> read = ReadInts(attributes, name);
    if (!read.ok()) return read.status();
    numbers->assign(read->begin(), read->end());
  }
  return origin;
}

Result<int64_t> ReadInt(ffi::Dictionary attributes, const char* name) {
  return ReadAttribute<int64_t>(attributes, name);
}

Result<std::vector<int64_t>> ReadInts(ffi::Dictionary attributes, const char* name) {
  const Result<ffi::Span<const int64_t>> values = ReadAttribute<ffi::Span<const int64_t>>(attributes, name);
  if (!values.ok()) return values.status();
  return std::vector<int64_t>(values->begin(), values->end());
}

Result<PePairs> ReadPairs(ffi::Dictionary attributes) {
  const Result<ffi::Span<const int64_t>> pes = ReadAttribute<ffi::Span<const int64_t>>(attributes, "pairs");
  if (!pes.ok()) return pes.status();
  return PePairs(pes->begin(), pes->end());
}

Neighbours FindNeighbours(const PePairs& pairs, int pe) {
  Neighbours neighbours;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == pe) neighbours.target = pairs[i + 1];
    if (pairs[i + 1] == pe) neighbours.source = pairs[i];
  }
  return neighbours;
}

Result<PeGroups> ReadGroups(ffi::Dictionary attributes) {
  const Result<ffi::Span<const int64_t>> offsets = ReadAttribute<ffi::Span<const int64_t>>(attributes, "group_offsets");
  if (!offsets.ok()) return offsets.status();
  const Result<ffi::Span<const int64_t>> pes = ReadAttribute<ffi::Span<const int64_t>>(attributes, "groups");
  if (!pes.ok()) return pes.status();
  PeGroups groups;
  for (size_t group = 0; group + 1 < offsets->size(); ++group) {
    const int64_t begin = (*offsets)[group], end = (*offsets)[group + 1];
    if (begin < 0 || begin > end || end > static_cast<int64_t>(pes->size())) {
      return NotOurs("the groups of a call have no order");
    }
    groups.emplace_back(pes->begin() + begin, pes->begin() + end);
  }
  return groups;
}

PeGroups AsGroups(const PePairs& pairs) {
  PeGroups groups;
  groups.reserve(pairs.size() / 2);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) groups.push_back({pairs[i], pairs[i + 1]});
  return groups;
}

const std::vector<int>* FindGroup(const PeGroups& groups, int pe) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::find(group.begin(), group.end(), pe) != group.end();
  });
  return found == groups.end() ? nullptr : &*found;
}

Result<std::vector<int>> GroupOf(const PeGroups& groups, int pe, const std::string& name) {
  const std::vector<int>* found = FindGroup(groups, pe);
  if (found == nullptr) return Status::Error(name + ": PE " + std::to_string(pe) + " is in none of its replica groups");
  return *found;
}

Result<ReductionKind> ReadReduction(ffi::Dictionary attributes) {
  const Result<std::string_view> name = ReadAttribute<std::string_view>(attributes, "reduction");
  if (!name.ok()) return name.status();
  const std::optional<ReductionKind> found = ReductionNamed(*name);
  if (!found.has_value()) return NotOurs("a call has the unknown reduction \"" + std::string(*name) + "\"");
  return *found;
}

Result<Buffers> ReadBuffers(ffi::RemainingArgs arguments, ffi::RemainingRets results, size_t operand_parts,
                            size_t result_parts, bool with_types) {
  if (arguments.size() != results.size()) {
    return NotOurs("a call has " + std::to_string(arguments.size()) + " operands and " +
                   std::to_string(results.size()) + " results");
  }
  Buffers buffers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = arguments.get<ffi::AnyBuffer>(i);
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || result.has_error() || (*operand).size_bytes() % operand_parts != 0 ||
        (*operand).size_bytes() / operand_parts * result_parts != (**result).size_bytes()) {
      return NotOurs("operand and result " + std::to_string(i) + " of a call do not match");
    }
    buffers.operands.push_back(static_cast<const char*>((*operand).untyped_data()));
    buffers.results.push_back(static_cast<char*>((**result).untyped_data()));
    buffers.bytes.push_back((*operand).size_bytes() / operand_parts);
    if (with_types) buffers.types.push_back(ToElementType((*operand).element_type()));
  }
  return buffers;
}

Result<Buffers> ReadParts(ffi::RemainingArgs arguments, ffi::RemainingRets results, size_t parts) {
  Buffers buffers;
  std::vector<size_t> sizes;
  const auto add = [&](char* memory, size_t bytes, bool is_whole, auto* pieces) {
    const size_t count = is_whole ? parts : 1;
    if (bytes % count != 0) return false;
    for (size_t i = 0; i < count; ++i) {
      pieces->push_back(memory + i * (bytes / count));
      sizes.push_back(bytes / count);
    }
    return true;
  };
  bool fits = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = arguments.get<ffi::AnyBuffer>(i);
    fits = fits && !operand.has_error() &&
           add(static_cast<char*>((*operand).untyped_data()), (*operand).size_bytes(), arguments.size() == 1,
               &buffers.operands);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    fits = fits && !result.has_error() &&
           add(static_cast<char*>((**result).untyped_data()), (**result).size_bytes(), results.size() == 1,
               &buffers.results);
  }
  if (!fits || buffers.operands.size() != parts || buffers.results.size() != parts ||
      std::count(sizes.begin(), sizes.end(), sizes[0]) != static_cast<std::ptrdiff_t>(sizes.size())) {
    return NotOurs("operands and results of a call are not " + std::to_string(parts) + " equal parts each");
  }
  buffers.bytes = {sizes[0]};
  return buffers;
}

Status CheckReducible(const std::string& name, const std::vector<ElementType>& types, ReductionKind reduction) {
  const auto is_supported = [&](ElementType type) { return Supports(type, reduction); };
  if (std::all_of(types.begin(), types.end(), is_supported)) return Status();
  return Status::Error(name + ": no reduction \"" + ReductionName(reduction) + "\" for this element type");
}

Status CheckTopology(const ffi::ErrorOr<int64_t>& topology, int64_t own) {
  if (topology.has_error()) return NotOurs("a call has no topology");
  if (*topology == own) return Status();
  return Status::Error(
      "this executable was compiled for another arrangement of processes, hosts or devices (topology " +
      std::to_string(*topology) + ", here " + std::to_string(own) +
      ") and would talk to the wrong PEs: compile it again here");
}

}  // namespace xla_shmem
