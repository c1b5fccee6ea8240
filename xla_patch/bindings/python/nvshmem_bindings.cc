#include "xla_patch/bindings/python/nvshmem_bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "xla_patch/bindings/python/errors.h"
#include "xla_patch/nvshmem/loader.h"

namespace nb = nanobind;

namespace xla_shmem {
namespace {

nb::dict OpenLibrary(const std::vector<std::string>& candidates) {
  const NvshmemLibrary library = ValueOrRuntimeError([&] {
    nb::gil_scoped_release release;
    return LoadNvshmem(candidates);
  }());
  nb::dict found;
  found["path"] = library.path;
  found["version"] = nb::make_tuple(library.major, library.minor, library.patch);
  return found;
}

}  // namespace

void BindNvshmem(nb::module_& m) {
  m.def(
      "nvshmem_library", &OpenLibrary, nb::arg("candidates"),
      "Opens the first of `candidates` that opens and keeps it open. Returns {\"path\", \"version\": (major, minor, "
      "patch)}. Does not initialise NVSHMEM. Raises RuntimeError, with everything that was tried, if none opens or the "
      "library cannot be used.");
}

}  // namespace xla_shmem
