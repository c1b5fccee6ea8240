#include "xla_patch/bindings/ffi/call_arguments.h"

#include <algorithm>
#include <optional>
#include <string_view>

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

template <typename T>
bool Read(ffi::Dictionary attributes, const char* name, T* value, std::string* error) {
  const ffi::ErrorOr<T> read = attributes.get<T>(name);
  if (read.has_error()) {
    *error = std::string("a call has no ") + name + "; it was not written by this xla-shmem";
    return false;
  }
  *value = *read;
  return true;
}

}  // namespace

ffi::Error ToError(const std::string& text) { return ffi::Error::Internal("xla_shmem: " + text); }

bool ReadIdentity(ffi::Dictionary attributes, CallIdentity* call, std::string* error) {
  int64_t operation = 0;
  std::string_view module, name;
  if (!Read(attributes, "op", &operation, error) || !Read(attributes, "module", &module, error) ||
      !Read(attributes, "name", &name, error)) {
    return false;
  }
  call->operation = static_cast<uint64_t>(operation);
  call->name = std::string(module).append("/").append(name);
  return true;
}

bool ReadPairs(ffi::Dictionary attributes, PePairs* pairs, std::string* error) {
  ffi::Span<const int64_t> pes;
  if (!Read(attributes, "pairs", &pes, error)) return false;
  pairs->assign(pes.begin(), pes.end());
  return true;
}

Neighbours FindNeighbours(const PePairs& pairs, int pe) {
  Neighbours neighbours;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == pe) neighbours.target = pairs[i + 1];
    if (pairs[i + 1] == pe) neighbours.source = pairs[i];
  }
  return neighbours;
}

bool ReadGroups(ffi::Dictionary attributes, PeGroups* groups, std::string* error) {
  ffi::Span<const int64_t> offsets, pes;
  if (!Read(attributes, "group_offsets", &offsets, error) || !Read(attributes, "groups", &pes, error)) return false;
  groups->clear();
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    if (offsets[group] < 0 || offsets[group] > offsets[group + 1] ||
        offsets[group + 1] > static_cast<int64_t>(pes.size())) {
      *error = "the groups of a call have no order; it was not written by this xla-shmem";
      return false;
    }
    groups->emplace_back(pes.begin() + offsets[group], pes.begin() + offsets[group + 1]);
  }
  return true;
}

const std::vector<int>* FindGroup(const PeGroups& groups, int pe) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::find(group.begin(), group.end(), pe) != group.end();
  });
  return found == groups.end() ? nullptr : &*found;
}

std::string InNoGroup(const std::string& name, int pe) {
  return name + ": PE " + std::to_string(pe) + " is in none of its replica groups";
}

bool ReadReduction(ffi::Dictionary attributes, ReductionKind* reduction, std::string* error) {
  std::string_view name;
  if (!Read(attributes, "reduction", &name, error)) return false;
  const std::optional<ReductionKind> found = ReductionNamed(name);
  if (!found.has_value()) {
    *error = "a call has the unknown reduction \"" + std::string(name) + "\"; it was not written by this xla-shmem";
    return false;
  }
  *reduction = *found;
  return true;
}

bool ReadBuffers(ffi::RemainingArgs arguments, ffi::RemainingRets results, size_t operand_parts, size_t result_parts,
                 Buffers* buffers, std::string* error) {
  if (arguments.size() != results.size()) {
    *error = "a call has " + std::to_string(arguments.size()) + " operands and " + std::to_string(results.size()) +
             " results; it was not written by this xla-shmem";
    return false;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = arguments.get<ffi::AnyBuffer>(i);
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || result.has_error() || (*operand).size_bytes() % operand_parts != 0 ||
        (*operand).size_bytes() / operand_parts * result_parts != (**result).size_bytes()) {
      *error =
          "operand and result " + std::to_string(i) + " of a call do not match; it was not written by this xla-shmem";
      return false;
    }
    buffers->operands.push_back(static_cast<const char*>((*operand).untyped_data()));
    buffers->results.push_back(static_cast<char*>((**result).untyped_data()));
    buffers->bytes.push_back((*operand).size_bytes() / operand_parts);
    buffers->types.push_back(ToElementType((*operand).element_type()));
  }
  return true;
}

bool ReadParts(ffi::RemainingArgs arguments, ffi::RemainingRets results, size_t parts, Buffers* buffers,
               std::string* error) {
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
               &buffers->operands);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    fits = fits && !result.has_error() &&
           add(static_cast<char*>((**result).untyped_data()), (**result).size_bytes(), results.size() == 1,
               &buffers->results);
  }
  if (!fits || buffers->operands.size() != parts || buffers->results.size() != parts ||
      std::count(sizes.begin(), sizes.end(), sizes[0]) != static_cast<std::ptrdiff_t>(sizes.size())) {
    *error = "operands and results of a call are not " + std::to_string(parts) +
             " equal parts each; it was not written by this xla-shmem";
    return false;
  }
  buffers->bytes = {sizes[0]};
  return true;
}

bool CheckReducible(const std::string& name, const std::vector<ElementType>& types, ReductionKind reduction,
                    bool (*supports)(ElementType, ReductionKind), std::string* error) {
  const auto is_supported = [&](ElementType type) { return supports(type, reduction); };
  if (std::all_of(types.begin(), types.end(), is_supported)) return true;
  *error = name + ": no reduction \"" + ReductionName(reduction) + "\" for this element type";
  return false;
}

std::string CheckTopology(const ffi::ErrorOr<int64_t>& topology, int64_t own) {
  if (topology.has_error()) return "a call has no topology; it was not written by this xla-shmem";
  if (*topology == own) return "";
  return "this executable was compiled for another arrangement of processes, hosts or devices (topology " +
         std::to_string(*topology) + ", here " + std::to_string(own) +
         ") and would talk to the wrong PEs: compile it again here";
}

}  // namespace xla_shmem
