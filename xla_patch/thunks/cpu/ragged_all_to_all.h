// Ragged all-to-all (docs/protocol.md, "Ragged all-to-all").
//
// Every member sends slices of rows to every other, and says where in the receiver's result they belong. The result
// begins as the operand `output`. Where slices overlap in it, the one of the later member holds, and of one member the
// later slice.
#ifndef XLA_SHMEM_THUNKS_CPU_RAGGED_ALL_TO_ALL_H_
#define XLA_SHMEM_THUNKS_CPU_RAGGED_ALL_TO_ALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/thunks/cpu/collective_operation.h"

namespace xla_shmem {

// Slice s that goes to member m, or comes from it, has the index m · slices + s in all four arrays.
struct RaggedNumbers {
  std::vector<int64_t> input_offsets, send_sizes;  // rows of the input
  std::vector<int64_t> output_offsets;             // rows of the receiver's result
  std::vector<int64_t> receive_sizes;
};

struct RaggedAllToAllArguments {
  MessageKey key;
  std::string name;        // of the HLO instruction, for errors
  std::vector<int> group;  // PEs in group order, with the local PE
  const char* input = nullptr;
  const char* output = nullptr;
  char* result = nullptr;
  size_t row_bytes = 0;
  int64_t input_rows = 0;
  int64_t output_rows = 0;  // of `output` and of the result, the same on every member
  RaggedNumbers numbers;
};

class RaggedAllToAllOperation : public CollectiveOperation {
 public:
  // Input, output and result may overlap in any way.
  RaggedAllToAllOperation(const PeContext* context, RaggedAllToAllArguments arguments);

 protected:
  // The numbers of every member come first. No row is received before all of them have been checked.
  bool DeclareMore() override;

 private:
  enum class Stage { kNumbers, kHeads, kRows };

  // A slice that comes from another member, or from this one.
  struct Place {
    int64_t offset;  // in the result
    int64_t rows;
  };

  // Throw std::runtime_error with the index and the values of a number that is wrong.
  void CheckNumbers() const;
  void CheckPlaces(size_t member) const;
  void CheckRows(const char* offsets, int64_t offset, const char* sizes, int64_t size, size_t index, int64_t rows,
                 const char* buffer) const;

  void SendEverything();
  void ReceiveRows(size_t member);
  bool PlacesOverlap() const;
  char* RowOf(char* buffer, int64_t row) const { return buffer + static_cast<size_t>(row) * arguments_.row_bytes; }
  const char* InputRow(int64_t row) const { return arguments_.input + static_cast<size_t>(row) * arguments_.row_bytes; }
  std::string PeOf(size_t member) const { return "PE " + std::to_string(arguments_.group[member]); }

  RaggedAllToAllArguments arguments_;
  size_t me_;
  size_t slices_;
  Stage stage_ = Stage::kNumbers;
  std::vector<Place> places_to_;    // what this PE sends, by index
  std::vector<Place> places_from_;  // what it receives, by index
  bool in_order_ = false;           // places overlap: rows of one member after those of the one before
  size_t next_member_ = 0;          // whose rows are received next
};

std::unique_ptr<Operation> MakeOperation(const PeContext* context, RaggedAllToAllArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_RAGGED_ALL_TO_ALL_H_
