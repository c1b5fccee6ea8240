#include "xla_patch/thunks/cpu/permute_parts.h"

#include <utility>
#include <vector>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

class PermuteParts : public CollectiveOperation {
 public:
  PermuteParts(const PeContext* context, PermutePartsArguments arguments)
      : CollectiveOperation(context, CollectiveOp::kCollectivePermute, arguments.key, std::move(arguments.name), 0) {
    const size_t bytes = arguments.bytes;
    std::vector<const char*> operands = {arguments.operand};
    if (arguments.received != nullptr) operands.push_back(arguments.received);
    const std::vector<size_t> sizes(operands.size(), bytes);
    const std::vector<char*> not_in_place(operands.size(), nullptr);
    CopyOverlappingOperands({arguments.result}, {bytes}, not_in_place, sizes, &operands, &copies_);
    const int me = context->pe;
    if (arguments.target >= 0 && arguments.target != me)
      Send(arguments.target, arguments.key, Whole(operands[0], bytes));
    if (arguments.source >= 0 && arguments.source != me) {
      Receive(arguments.source, arguments.key, Whole(arguments.result, bytes));
      return;
    }
    const char* const received = operands.size() > 1 ? operands[1] : nullptr;
    CopyLocally(arguments.source == me ? operands[0] : received, arguments.result, bytes);
  }

 private:
  static Spans Whole(const char* memory, size_t bytes) {
    Spans spans(1);
    spans.Add(memory, bytes);
    return spans;
  }
};

}  // namespace

std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermutePartsArguments arguments) {
  return std::make_unique<PermuteParts>(context, std::move(arguments));
}

}  // namespace xla_shmem
