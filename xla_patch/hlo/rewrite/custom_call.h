#ifndef XLA_SHMEM_HLO_REWRITE_CUSTOM_CALL_H_
#define XLA_SHMEM_HLO_REWRITE_CUSTOM_CALL_H_

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/pass_options.h"

namespace xla_shmem::hlo {

// Why no call can take the place of a collective in this form, whatever the transport.
Unsupported UnsupportedForm(const Collective& collective, Lowering lowering);

// The custom calls that replace a collective; their attributes are in call_arguments.h. This one does the whole
// transfer. For a pair it replaces the start.
CustomCall SyncCall(const Module& module, const Collective& collective, const Topology& topology);

// The start's result is the final result, in its own buffer or in its operand's, as XLA had chosen.
CustomCall StartCall(const Module& module, const Collective& collective, const Topology& topology);

// The done returns the start's buffers. It also takes the operands that the start does not work in place on, so that
// they live until the wait.
CustomCall DoneCall(const Module& module, const Collective& collective, const Topology& topology);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_CUSTOM_CALL_H_
