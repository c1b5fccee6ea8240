#ifndef XLA_SHMEM_TESTS_HLO_HLO_BUILDER_H_
#define XLA_SHMEM_TESTS_HLO_HLO_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xla_shmem::test {

// Writes protobuf messages field by field, with an encoder of its own, so that tests do not check the code under test
// against itself.
class Message {
 public:
  Message& Int(uint32_t field, int64_t value) {
    Varint(uint64_t{field} << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& Bytes(uint32_t field, std::string_view value) {
    Varint(uint64_t{field} << 3 | 2);
    Varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& Sub(uint32_t field, const Message& message) { return Bytes(field, message.bytes_); }
  Message& Ints(uint32_t field, const std::vector<int64_t>& values) {
    Message packed;
    for (const int64_t value : values) {
      packed.Varint(static_cast<uint64_t>(value));
    }
    return Bytes(field, packed.bytes_);
  }
  Message& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_.push_back(static_cast<char>(value | 0x80));
    }
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

inline constexpr int kF32 = 11;

inline Message ArrayShape(std::vector<int64_t> dims, int type = kF32) {
  std::vector<int64_t> minor_to_major;
  for (size_t i = dims.size(); i-- > 0;) {
    minor_to_major.push_back(static_cast<int64_t>(i));
  }
  return Message().Int(2, type).Ints(3, dims).Sub(5, Message().Ints(1, minor_to_major));
}
inline Message TupleShape(const std::vector<Message>& elements) {
  Message shape;
  shape.Int(2, 13);
  for (const Message& element : elements) {
    shape.Sub(4, element);
  }
  return shape;
}

inline Message Instruction(std::string_view name, std::string_view opcode, const Message& shape, int64_t id,
                           const std::vector<int64_t>& operands = {}) {
  Message message;
  message.Bytes(1, name).Bytes(2, opcode).Sub(3, shape).Int(35, id);
  if (!operands.empty()) {
    message.Ints(36, operands);
  }
  return message;
}

inline Message Computation(std::string_view name, int64_t id, const std::vector<Message>& instructions, int64_t root) {
  Message message;
  message.Bytes(1, name);
  for (const Message& instruction : instructions) {
    message.Sub(2, instruction);
  }
  return message.Int(5, id).Int(6, root);
}

// f(a, b) = opcode(a, b) over scalars.
inline Message ReductionComputation(std::string_view opcode, int64_t id, int type = kF32) {
  const Message scalar = Message().Int(2, type);
  return Computation("region", id,
                     {Instruction("a", "parameter", scalar, 1).Int(9, 0),
                      Instruction("b", "parameter", scalar, 2).Int(9, 1), Instruction("r", opcode, scalar, 3, {1, 2})},
                     3);
}

// A schedule in which the computations run as listed: {id, {instruction ids}}, ...
inline Message ScheduleProto(const std::vector<std::pair<int64_t, std::vector<int64_t>>>& sequences) {
  Message schedule;
  for (const auto& [computation, ids] : sequences) {
    schedule.Sub(1, Message().Int(1, computation).Sub(2, Message().Ints(1, ids)));
  }
  return schedule;
}

inline Message DeviceAssignmentProto(const std::vector<std::vector<int64_t>>& by_partition) {
  Message message;
  message.Int(1, static_cast<int64_t>(by_partition[0].size())).Int(2, static_cast<int64_t>(by_partition.size()));
  for (const std::vector<int64_t>& replicas : by_partition) {
    message.Sub(3, Message().Ints(1, replicas));
  }
  return message;
}

inline Message Pair(int64_t source, int64_t target) { return Message().Int(1, source).Int(2, target); }

// Adds source_target_pairs (and a channel, so that they number partitions) to a permute.
inline Message WithPairs(Message permute, const std::vector<std::pair<int64_t, int64_t>>& pairs, bool channel = true) {
  for (const auto& [source, target] : pairs) {
    permute.Sub(52, Pair(source, target));
  }
  return channel ? permute.Int(26, 1) : permute;
}

// All devices as one group of flattened ids, reducing by computation 1.
inline Message WithGroups(Message op, const std::vector<std::vector<int64_t>>& groups) {
  Message list;
  for (const std::vector<int64_t>& group : groups) {
    list.Sub(1, Message().Ints(1, group));
  }
  return op.Sub(87, list).Int(26, 1).Int(71, 1);
}

// One replica of `partitions` partitions on devices 0, 1, ...
inline Message Module(const std::vector<Message>& computations, int64_t entry, int64_t partitions = 4) {
  Message message;
  message.Bytes(1, "jit_f").Bytes(2, "main").Int(6, entry);
  for (const Message& computation : computations) {
    message.Sub(3, computation);
  }
  std::vector<std::vector<int64_t>> assignment;
  for (int64_t i = 0; i < partitions; ++i) {
    assignment.push_back({i});
  }
  return message.Int(5, 77).Sub(15, DeviceAssignmentProto(assignment));
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_HLO_HLO_BUILDER_H_
