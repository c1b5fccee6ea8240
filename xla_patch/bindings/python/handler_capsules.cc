#include "xla_patch/bindings/python/handler_capsules.h"

namespace xla_shmem {

namespace nb = nanobind;

nb::capsule HandlerCapsule(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*)) {
  return nb::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

nb::dict HandlerStages(XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*),
                       XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*)) {
  nb::dict stages;
  stages["instantiate"] = HandlerCapsule(instantiate);
  stages["execute"] = HandlerCapsule(execute);
  return stages;
}

}  // namespace xla_shmem
