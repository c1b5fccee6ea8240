#include "xla_patch/ffi/call_arguments.h"

#include <algorithm>
#include <optional>

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

std::optional<ElementType> ToElementType(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return ElementType::kF32;
    case ffi::DataType::F64:
      return ElementType::kF64;
    case ffi::DataType::F16:
      return ElementType::kF16;
    case ffi::DataType::BF16:
      return ElementType::kBf16;
    case ffi::DataType::S8:
      return ElementType::kS8;
    case ffi::DataType::S16:
      return ElementType::kS16;
    case ffi::DataType::S32:
      return ElementType::kS32;
    case ffi::DataType::S64:
      return ElementType::kS64;
    case ffi::DataType::U8:
      return ElementType::kU8;
    case ffi::DataType::U16:
      return ElementType::kU16;
    case ffi::DataType::U32:
      return ElementType::kU32;
    case ffi::DataType::U64:
      return ElementType::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<ReductionKind> ToReduction(std::string_view name) {
  if (name == "sum") return ReductionKind::kSum;
  if (name == "prod") return ReductionKind::kProd;
  if (name == "min") return ReductionKind::kMin;
  if (name == "max") return ReductionKind::kMax;
  return std::nullopt;
}

}  // namespace

ffi::Error ToError(const std::string& text) { return ffi::Error::Internal("xla_shmem: " + text); }

bool ReadBuffers(ffi::RemainingArgs arguments, ffi::RemainingRets results, Buffers* buffers, std::string* error) {
  if (arguments.size() != results.size()) {
    *error = "a call has " + std::to_string(arguments.size()) + " operands and " + std::to_string(results.size()) +
             " results; it was not written by this xla-shmem";
    return false;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    ffi::ErrorOr<ffi::AnyBuffer> operand = arguments.get<ffi::AnyBuffer>(i);
    ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || result.has_error() || (*operand).size_bytes() != (**result).size_bytes()) {
      *error =
          "operand and result " + std::to_string(i) + " of a call do not match; it was not written by this xla-shmem";
      return false;
    }
    buffers->operands.push_back(static_cast<const char*>((*operand).untyped_data()));
    buffers->results.push_back(static_cast<char*>((**result).untyped_data()));
    buffers->bytes.push_back((*operand).size_bytes());
    buffers->types.push_back((*operand).element_type());
  }
  return true;
}

std::string FullName(std::string_view module, std::string_view name) {
  return std::string(module).append("/").append(name);
}

Neighbours FindNeighbours(ffi::Span<const int64_t> pairs, int pe) {
  Neighbours neighbours;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] == pe) neighbours.target = static_cast<int>(pairs[i + 1]);
    if (pairs[i + 1] == pe) neighbours.source = static_cast<int>(pairs[i]);
  }
  return neighbours;
}

bool ReadAllReduce(const std::string& name, std::string_view reduction, ffi::Span<const int64_t> group_offsets,
                   ffi::Span<const int64_t> groups, const std::vector<ffi::DataType>& types, int pe,
                   AllReduceAttributes* attributes, std::string* error) {
  const std::optional<ReductionKind> kind = ToReduction(reduction);
  if (!kind.has_value()) {
    *error = name + ": unknown reduction \"" + std::string(reduction) + "\"";
    return false;
  }
  attributes->reduction = *kind;
  for (const ffi::DataType type : types) {
    const std::optional<ElementType> element = ToElementType(type);
    if (!element.has_value()) {
      *error = name + ": this element type cannot be reduced";
      return false;
    }
    attributes->types.push_back(*element);
  }
  for (size_t group = 0; group + 1 < group_offsets.size(); ++group) {
    const std::vector<int> members(groups.begin() + group_offsets[group], groups.begin() + group_offsets[group + 1]);
    if (std::find(members.begin(), members.end(), pe) != members.end()) attributes->group = members;
  }
  if (!attributes->group.empty()) return true;
  *error = name + ": PE " + std::to_string(pe) + " is in none of its replica groups";
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
