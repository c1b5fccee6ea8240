#ifndef XLA_SHMEM_FFI_PASS_BINDINGS_H_
#define XLA_SHMEM_FFI_PASS_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds the compiler side to the module: Topology, Transport, cpu_transport, run_pass, inspect_module. Bad input raises
// ValueError with the message of the C++ side.
void BindPass(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_FFI_PASS_BINDINGS_H_
