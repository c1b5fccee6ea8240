#include "xla_patch/nvshmem/loader.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("A missing library is a sentence with everything tried and the pip line") {
  NvshmemLibrary library;
  std::string error;
  CHECK_FALSE(LoadNvshmem({"/nowhere/libnvshmem_host.so.3", "libnvshmem_host_of_nobody.so.3"}, &library, &error));
  CHECK(Contains(error, "/nowhere/libnvshmem_host.so.3"));
  CHECK(Contains(error, "libnvshmem_host_of_nobody.so.3"));
  CHECK(Contains(error, "pip install nvidia-nvshmem-cu12"));
  CHECK(library.path.empty());
}

TEST_CASE("Nothing to try is said too") {
  NvshmemLibrary library;
  std::string error;
  CHECK_FALSE(LoadNvshmem({}, &library, &error));
  CHECK(Contains(error, "nothing to try"));
}

TEST_CASE("A library that is not NVSHMEM is refused with the calls it lacks, and the table stays empty") {
  NvshmemLibrary library;
  std::string error;
  CHECK_FALSE(LoadNvshmem({"libm.so.6"}, &library, &error));
  CHECK(Contains(error, "libm.so.6 is not an NVSHMEM host library"));
  CHECK(Contains(error, "nvshmem_my_pe"));
  CHECK(Contains(error, "nvshmemx_hostlib_init_attr"));
  CHECK(Contains(error, "pip install"));
  CHECK(library.path.empty());
  CHECK((library.api.my_pe == nullptr));
}

}  // namespace
}  // namespace xla_shmem
