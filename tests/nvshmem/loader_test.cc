#include "xla_patch/nvshmem/loader.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("If no library opens, the error names everything that was tried and the pip line") {
  const Result<NvshmemLibrary> library = LoadNvshmem({"/nowhere/libnvshmem_host.so.3", "libnvshmem_host_missing.so.3"});
  REQUIRE_FALSE(library.ok());
  CHECK(Contains(library.message(), "/nowhere/libnvshmem_host.so.3"));
  CHECK(Contains(library.message(), "libnvshmem_host_missing.so.3"));
  CHECK(Contains(library.message(), "pip install nvidia-nvshmem-cu12"));
}

TEST_CASE("An empty list of candidates is an error too") {
  CHECK(Contains(LoadNvshmem({}).message(), "nothing to try"));
}

TEST_CASE("A library that is not NVSHMEM is refused with the calls it lacks") {
  const Result<NvshmemLibrary> library = LoadNvshmem({"libm.so.6"});
  REQUIRE_FALSE(library.ok());
  CHECK(Contains(library.message(), "libm.so.6 is not an NVSHMEM host library"));
  CHECK(Contains(library.message(), "nvshmem_my_pe"));
  CHECK(Contains(library.message(), "nvshmemx_hostlib_init_attr"));
  CHECK(Contains(library.message(), "pip install"));
}

}  // namespace
}  // namespace xla_shmem
