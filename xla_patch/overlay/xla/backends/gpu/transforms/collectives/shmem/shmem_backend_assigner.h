#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_SHMEM_BACKEND_ASSIGNER_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_SHMEM_BACKEND_ASSIGNER_H_

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_interface.h"
#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla::gpu {

// The input of the assigner; the same on all ranks.
struct ShmemJob {
  xla_shmem::Options rules;
  xla_shmem::Topology topology;
  xla_shmem::Transport transport;
};

// Decides for every collective that the rules consider whether NVSHMEM or the default backend carries it, by the reader
// and the rules of the plugin, and writes onto the instruction
//
//   - the backend into its GpuBackendConfig (see collective_backend_config.h), which thunk emission reads;
//   - decision, rule, reason and veto as frontend attributes "xla_shmem.*", which dumps show. A done, and an
//     async-start around the collective, get the same attributes.
//
// Runs after the collective combiners, since the size that counts is the combined one; before or after the creation of
// asynchronous pairs, and before or after scheduling. Nothing but backend config and attributes is touched, and running
// it again changes nothing.
class ShmemBackendAssigner : public HloModulePass {
 public:
  explicit ShmemBackendAssigner(ShmemJob job) : job_(std::move(job)) {}

  absl::string_view name() const override { return "shmem-backend-assigner"; }

 protected:
  absl::StatusOr<bool> RunImpl(HloModule* module,
                               const absl::flat_hash_set<absl::string_view>& execution_threads) override;

 private:
  ShmemJob job_;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_SHMEM_BACKEND_ASSIGNER_H_
