#include "xla_patch/bindings/ffi/cpu/handlers.h"

#include "xla_patch/bindings/ffi/cpu/loaded_call.h"

namespace xla_shmem {
namespace {

std::vector<CpuHandler>& Registered() {
  static auto* const handlers = new std::vector<CpuHandler>;
  return *handlers;
}

}  // namespace

XLA_FFI_TypeId* LoadedCallTypeId() { return &LoadedCall::id; }

XLA_FFI_TypeInfo* LoadedCallTypeInfo() {
  static XLA_FFI_TypeInfo info = ::xla::ffi::MakeTypeInfo<LoadedCall>();
  return &info;
}

const std::vector<CpuHandler>& CpuHandlers() { return Registered(); }

CpuHandlerRegistration::CpuHandlerRegistration(const CpuHandler& handler) noexcept { Registered().push_back(handler); }

}  // namespace xla_shmem
