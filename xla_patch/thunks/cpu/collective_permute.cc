#include "xla_patch/thunks/cpu/collective_permute.h"

#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

PermuteOperation::PermuteOperation(const PeContext* context, PermuteArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kCollectivePermute, arguments.key, std::move(arguments.name), 0) {
  const auto& [key, name, source, target, operands, results, bytes] = arguments;
  const bool in_place = CopyOverlappingOperands(results, bytes, results, bytes, &arguments.operands, &copies_);
  const bool sends = target >= 0 && target != context->pe;
  if (sends) Send(target, key, PartsOf(operands, bytes, 0), Source::kOperands, /*overwritten=*/in_place);
  if (source >= 0 && source != context->pe) {
    Receive(source, key, PartsOf(results, bytes, 0), sends && in_place ? 0 : -1);
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    CopyLocally(source == context->pe ? operands[i] : nullptr, results[i], bytes[i], in_place);
  }
}

}  // namespace xla_shmem
