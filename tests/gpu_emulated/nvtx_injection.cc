// Stands in for a profiler: writes the ranges of domain "xla-shmem" to the file $NVTX_INJECTION_OUT.<pid>, a line each
// with its payload and message, and "pop" at each end. NVTX loads it by NVTX_INJECTION64_PATH.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

char ours;  // its address is the handle of our domain

FILE* Out() {
  static FILE* const out =
      fopen((std::string(getenv("NVTX_INJECTION_OUT")) + "." + std::to_string(getpid())).c_str(), "a");
  return out;
}

nvtxDomainHandle_t DomainCreate(const char* name) {
  static char other;
  return reinterpret_cast<nvtxDomainHandle_t>(strcmp(name, "xla-shmem") == 0 ? &ours : &other);
}

bool IsOurs(nvtxDomainHandle_t domain) { return reinterpret_cast<char*>(domain) == &ours; }

int RangePush(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (IsOurs(domain)) {
    fprintf(Out(), "%llu %s\n", static_cast<unsigned long long>(event->payload.ullValue), event->message.ascii);
    fflush(Out());
  }
  return 0;
}

int RangePop(nvtxDomainHandle_t domain) {
  if (IsOurs(domain)) {
    fprintf(Out(), "pop\n");
    fflush(Out());
  }
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(DomainCreate);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(RangePush);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(RangePop);
  return 1;
}
