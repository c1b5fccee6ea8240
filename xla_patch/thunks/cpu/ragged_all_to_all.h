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
#include "xla_patch/thunks/cpu/ragged_numbers.h"

namespace xla_shmem {

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

  void SendEverything();
  void ReceiveRows(size_t member);
  bool PlacesOverlap() const;
  char* RowOf(char* buffer, int64_t row) const { return buffer + static_cast<size_t>(row) * arguments_.row_bytes; }
  const char* InputRow(int64_t row) const { return arguments_.input + static_cast<size_t>(row) * arguments_.row_bytes; }

  RaggedAllToAllArguments arguments_;
  size_t me_;
  size_t slices_;
  RaggedChecks checks_;
  Stage stage_ = Stage::kNumbers;
  std::vector<RaggedPlace> places_to_;    // what this PE sends, by index
  std::vector<RaggedPlace> places_from_;  // what it receives, by index
  bool in_order_ = false;                 // places overlap: rows of one member after those of the one before
  size_t next_member_ = 0;                // whose rows are received next
};

// Within this process if the whole group is, else by messages.
std::unique_ptr<Operation> MakeOperation(const PeContext* context, RaggedAllToAllArguments arguments);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_RAGGED_ALL_TO_ALL_H_
