#include "tests/thunks/cpu/traffic.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace xla_shmem::testing {
namespace {

constexpr size_t kGuard = 64;
constexpr char kGuardByte = 0x5e;
constexpr int kCopyBit = 56;

// splitmix64 (Steele, Lea, Flood 2014): neighbouring inputs give unrelated outputs.
uint64_t Hash(uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

template <typename T>
void FillValues(uint64_t seed, char* memory, size_t elements) {
  T* values = reinterpret_cast<T*>(memory);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = static_cast<T>(static_cast<double>(static_cast<int64_t>(Hash(seed + i)) >> 11) * 0x1p-52);
  }
}

std::vector<BufferPair> Pairs(const std::vector<size_t>& bytes) {
  std::vector<BufferPair> pairs;
  for (size_t size : bytes) pairs.push_back({size, size});
  return pairs;
}

std::vector<size_t> BytesOf(const Reduction& reduction) {
  std::vector<size_t> bytes;
  for (size_t i = 0; i < reduction.types.size(); ++i) {
    bytes.push_back(reduction.elements[i] * ElementBytes(reduction.types[i]));
  }
  return bytes;
}

}  // namespace

uint64_t InCopy(uint64_t operation, int number) { return operation ^ static_cast<uint64_t>(number) << kCopyBit; }

uint64_t Seed(MessageKey key, int pe, size_t index) {
  const uint64_t operation = key.operation & ((uint64_t{1} << kCopyBit) - 1);
  return Hash(operation * 1000003 + key.execution * 7919 + static_cast<uint64_t>(pe) * 131 + index);
}

void Fill(uint64_t seed, char* memory, size_t bytes) {
  static const std::vector<char> noise = [] {
    std::vector<char> made(65521);  // a prime, so that no offset in a message is a multiple of it
    for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(Hash(i));
    return made;
  }();
  // Copies blocks, because sanitizers check each byte of a loop.
  size_t from = seed % noise.size();
  while (bytes > 0) {
    const size_t part = std::min(bytes, noise.size() - from);
    memcpy(memory, noise.data() + from, part);
    memory += part;
    bytes -= part;
    from = 0;
  }
}

std::string Compare(int pe, size_t index, const std::vector<char>& expected, const char* result) {
  if (expected.empty() || memcmp(expected.data(), result, expected.size()) == 0) return "";
  const auto wrong = std::mismatch(expected.begin(), expected.end(), result);
  if (wrong.first == expected.end()) return "";
  return "PE " + std::to_string(pe) + ", result " + std::to_string(index) + " of " + std::to_string(expected.size()) +
         " bytes: wrong at byte " + std::to_string(wrong.first - expected.begin());
}

Buffers::Buffers(const std::vector<size_t>& bytes, Placement placement) : Buffers(Pairs(bytes), placement) {}

Buffers::Buffers(const std::vector<BufferPair>& pairs, Placement placement) {
  auto place = [this](size_t size) {
    const size_t at = (memory_.size() + kGuard + 15) / 16 * 16;
    memory_.resize(at + size + kGuard, kGuardByte);
    return at;
  };
  const size_t shift = placement == Placement::kShifted ? 24 : 0;
  for (const BufferPair& pair : pairs) {
    if (placement == Placement::kApart) {
      operands_.push_back(place(pair.operand_bytes));
      results_.push_back(place(pair.result_bytes));
    } else {
      const size_t shared = place(std::max(pair.operand_bytes, pair.result_bytes) + shift);
      operands_.push_back(shared + pair.operand_at);
      results_.push_back(shared + pair.result_at + shift);
    }
  }
  const bool equal = std::adjacent_find(pairs.begin(), pairs.end(), [](const BufferPair& a, const BufferPair& b) {
                       return a.operand_bytes != b.operand_bytes || a.result_bytes != b.result_bytes;
                     }) == pairs.end();
  // Rotation needs equal sizes; other buffers stay in place.
  if (placement == Placement::kRotated && equal && !results_.empty()) {
    std::rotate(results_.begin(), results_.begin() + 1, results_.end());
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    in_use_.emplace_back(operands_[i], operands_[i] + pairs[i].operand_bytes);
    in_use_.emplace_back(results_[i], results_[i] + pairs[i].result_bytes);
  }
  std::sort(in_use_.begin(), in_use_.end());
}

std::vector<const char*> Buffers::operands() {
  std::vector<const char*> pointers;
  for (size_t i = 0; i < operands_.size(); ++i) pointers.push_back(operand(i));
  return pointers;
}

std::vector<char*> Buffers::results() {
  std::vector<char*> pointers;
  for (size_t i = 0; i < results_.size(); ++i) pointers.push_back(result(i));
  return pointers;
}

bool Buffers::GuardsIntact() const {
  auto intact = [this](size_t begin, size_t end) {
    return begin >= end || std::count(memory_.begin() + begin, memory_.begin() + end, kGuardByte) ==
                               static_cast<ptrdiff_t>(end - begin);
  };
  size_t checked = 0;
  for (const auto& [begin, end] : in_use_) {
    if (!intact(checked, begin)) return false;
    checked = std::max(checked, end);
  }
  return intact(checked, memory_.size());
}

PermuteTransfer::PermuteTransfer(MessageKey key, int pe, const std::vector<int>& target_of, std::vector<size_t> bytes,
                                 Placement placement)
    : key_(key), pe_(pe), source_(-1), target_(target_of[pe]), bytes_(std::move(bytes)), buffers_(bytes_, placement) {
  const auto source = std::find(target_of.begin(), target_of.end(), pe);
  if (source != target_of.end()) source_ = static_cast<int>(source - target_of.begin());
  for (size_t from = 0; from < target_of.size(); ++from) {
    if (target_of[from] >= 0) pairs_.insert(pairs_.end(), {static_cast<int>(from), target_of[from]});
  }
  for (size_t i = 0; i < bytes_.size(); ++i) Fill(Seed(key_, pe_, i), buffers_.operand(i), bytes_[i]);
}

std::unique_ptr<Operation> PermuteTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments;
  arguments.op = CollectiveOp::kCollectivePermute;
  arguments.key = key_;
  arguments.name = "permute." + std::to_string(key_.operation);
  arguments.source = source_;
  arguments.target = target_;
  arguments.pairs = pairs_;
  arguments.operands = buffers_.operands();
  arguments.results = buffers_.results();
  arguments.bytes = bytes_;
  return MakeOperation(&context, std::move(arguments));
}

std::string PermuteTransfer::Verdict() {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<char> expected(bytes_[i], 0);
    if (source_ >= 0) Fill(Seed(key_, source_, i), expected.data(), bytes_[i]);
    const std::string wrong = Compare(pe_, i, expected, buffers_.result(i));
    if (!wrong.empty()) return wrong;
  }
  return buffers_.GuardsIntact() ? "" : "PE " + std::to_string(pe_) + ": bytes beside the buffers changed";
}

std::vector<char> AllReduceOperand(MessageKey key, int pe, size_t index, ElementType type, size_t elements) {
  std::vector<char> operand(elements * ElementBytes(type));
  const uint64_t seed = Seed(key, pe, index);
  if (type == ElementType::kF32) {
    FillValues<float>(seed, operand.data(), elements);
  } else if (type == ElementType::kF64) {
    FillValues<double>(seed, operand.data(), elements);
  } else if (type == ElementType::kC64) {
    FillValues<float>(seed, operand.data(), 2 * elements);
  } else if (type == ElementType::kC128) {
    FillValues<double>(seed, operand.data(), 2 * elements);
  } else if (type >= ElementType::kF8E5M2 || type == ElementType::kPred) {
    // Eighths up to about 2 in all formats, without NaN, and bytes 0 and 1.
    const char mask = type == ElementType::kPred ? 1 : 0x3b;
    for (size_t i = 0; i < elements; ++i) operand[i] = static_cast<char>(Hash(seed + i)) & mask;
  } else if (type == ElementType::kF16 || type == ElementType::kBf16) {
    auto* values = reinterpret_cast<uint16_t*>(operand.data());
    // Without the largest exponents, so that there are no infinities and no NaNs, whose bits would depend on the
    // operand.
    for (size_t i = 0; i < elements; ++i) values[i] = static_cast<uint16_t>(Hash(seed + i)) & 0xbbff;
  } else {
    Fill(seed, operand.data(), operand.size());
  }
  return operand;
}

AllReduceTransfer::AllReduceTransfer(MessageKey key, int pe, Reduction reduction, Placement placement)
    : key_(key), pe_(pe), reduction_(std::move(reduction)), bytes_(BytesOf(reduction_)), buffers_(bytes_, placement) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const auto operand = AllReduceOperand(key_, pe_, i, reduction_.types[i], reduction_.elements[i]);
    std::copy(operand.begin(), operand.end(), buffers_.operand(i));
  }
}

std::unique_ptr<Operation> AllReduceTransfer::Begin(const PeContext& context) {
  CollectiveArguments arguments;
  arguments.op = CollectiveOp::kAllReduce;
  arguments.key = key_;
  arguments.name = "all-reduce." + std::to_string(key_.operation);
  arguments.reduction = reduction_.kind;
  arguments.group = reduction_.group;
  arguments.types = reduction_.types;
  arguments.operands = buffers_.operands();
  arguments.results = buffers_.results();
  arguments.bytes = bytes_;
  return MakeOperation(&context, std::move(arguments));
}

std::string AllReduceTransfer::Verdict() {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<std::vector<char>> operands;
    std::vector<const char*> pointers;
    for (int pe : reduction_.group) {
      operands.push_back(AllReduceOperand(key_, pe, i, reduction_.types[i], reduction_.elements[i]));
      pointers.push_back(operands.back().data());
    }
    std::vector<char> expected(bytes_[i]);
    Reduce(reduction_.types[i], reduction_.kind, pointers.data(), pointers.size(), reduction_.elements[i],
           expected.data());
    const std::string wrong = Compare(pe_, i, expected, buffers_.result(i));
    if (!wrong.empty()) return wrong;
  }
  return buffers_.GuardsIntact() ? "" : "PE " + std::to_string(pe_) + ": bytes beside the buffers changed";
}

}  // namespace xla_shmem::testing
