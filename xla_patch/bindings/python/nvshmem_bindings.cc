#include "xla_patch/bindings/python/nvshmem_bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/loader.h"

namespace nb = nanobind;

namespace xla_shmem {
namespace {

nb::dict OpenLibrary(const std::vector<std::string>& candidates) {
  NvshmemLibrary library;
  std::string error;
  bool opened;
  {
    nb::gil_scoped_release release;
    opened = LoadNvshmem(candidates, &library, &error);
  }
  if (!opened) throw std::runtime_error(error);
  nb::dict found;
  found["path"] = library.path;
  found["version"] = nb::make_tuple(library.major, library.minor, library.patch);
  return found;
}

}  // namespace

void BindNvshmem(nb::module_& m) {
  m.def("nvshmem_library", &OpenLibrary, nb::arg("candidates"),
        "Opens the first of `candidates` that is an NVSHMEM host library we can use, and keeps it open: {\"path\", "
        "\"version\": (major, minor, patch)}. Initialises nothing. Raises RuntimeError with what was tried.");
}

}  // namespace xla_shmem
