#include "xla_patch/nvshmem/loader.h"

#include <dlfcn.h>

#include "xla_patch/nvshmem/symbol_reader.h"

namespace xla_shmem {
namespace {

constexpr char kInstallHint[] =
    "install it with `pip install nvidia-nvshmem-cu12` or `pip install nvidia-nvshmem-cu13`";

void ReadTable(SymbolReader& reader, NvshmemLibrary* library) {
  NvshmemApi& api = library->api;
  reader.Read("nvshmem_my_pe", &api.my_pe);
  reader.Read("nvshmem_n_pes", &api.n_pes);
  reader.Read("nvshmem_malloc", &api.malloc);
  reader.Read("nvshmem_free", &api.free);
  reader.Read("nvshmem_ptr", &api.ptr);
  reader.ReadOptional("nvshmemx_mc_ptr", &api.mc_ptr);
  reader.Read("nvshmemx_putmem_on_stream", &api.putmem_on_stream);
  reader.Read("nvshmemx_putmem_signal_on_stream", &api.putmem_signal_on_stream);
  reader.Read("nvshmemx_signal_op_on_stream", &api.signal_op_on_stream);
  reader.Read("nvshmemx_signal_wait_until_on_stream", &api.signal_wait_until_on_stream);
  reader.Read("nvshmemx_quiet_on_stream", &api.quiet_on_stream);
  reader.Read("nvshmemx_hostlib_init_attr", &library->hostlib_init_attr);
  reader.Read("nvshmemx_init_status", &library->init_status);
  reader.Read("nvshmemx_hostlib_finalize", &library->hostlib_finalize);
  reader.Read("nvshmemx_get_uniqueid", &library->get_uniqueid);
  reader.Read("nvshmemx_set_attr_uniqueid_args", &library->set_attr_uniqueid_args);
}

Result<NvshmemLibrary> ReadLibrary(void* handle, const std::string& path) {
  NvshmemLibrary library;
  SymbolReader reader(handle);
  ReadTable(reader, &library);
  void (*version)(int*, int*, int*) = nullptr;
  reader.Read("nvshmemx_vendor_get_version_info", &version);
  if (!reader.missing().empty()) {
    return Status::Error(path + " is not an NVSHMEM host library that xla-shmem can use: it lacks " + reader.missing() +
                         "; " + kInstallHint);
  }
  version(&library.major, &library.minor, &library.patch);
  if (library.major < kMinimumNvshmemMajor) {
    return Status::Error(path + " is NVSHMEM " + std::to_string(library.major) + "." + std::to_string(library.minor) +
                         ", at least " + std::to_string(kMinimumNvshmemMajor) + ".0 is needed: " + kInstallHint);
  }
  library.path = path;
  return library;
}

}  // namespace

Result<NvshmemLibrary> LoadNvshmem(const std::vector<std::string>& candidates) {
  std::string tried;
  for (const std::string& path : candidates) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
      continue;
    }
    Result<NvshmemLibrary> library = ReadLibrary(handle, path);
    if (!library.ok()) dlclose(handle);
    return library;
  }
  return Status::Error("no NVSHMEM host library found (" + (tried.empty() ? "nothing to try" : tried) +
                       "): " + kInstallHint);
}

}  // namespace xla_shmem
