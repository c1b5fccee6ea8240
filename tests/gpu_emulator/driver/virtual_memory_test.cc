#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "driver/death.h"
#include "driver/driver_fixture.h"

namespace emulator {
namespace {

constexpr size_t kGranule = size_t{2} << 20;

CUmemAllocationProp Properties(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.requestedHandleTypes = types;
  return properties;
}

CUmemGenericAllocationHandle Create(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  const CUmemAllocationProp properties = Properties(types);
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  return handle;
}

CUdeviceptr Reserve(size_t bytes) {
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAddressReserve(&pointer, bytes, 0, 0, 0) == CUDA_SUCCESS);
  return pointer;
}

CUresult Allow(CUdeviceptr pointer, size_t bytes, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  access.flags = flags;
  return cuMemSetAccess(pointer, bytes, &access, 1);
}

DYING_TEST_CASE("creates a granule and a page") {
  DriverFixture gpu;
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  cuMemCreate(&handle, kGranule + 4096, &properties, 0);
}
DYING_TEST_CASE("reserves a page") {
  DriverFixture gpu;
  CUdeviceptr pointer = 0;
  cuMemAddressReserve(&pointer, 4096, 0, 0, 0);
}
TEST_CASE("Sizes are multiples of the granularity") {
  DriverFixture gpu;
  const CUmemAllocationProp properties = Properties();
  size_t granularity = 0;
  REQUIRE(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CHECK(granularity == kGranule);
  CHECK(Dies("creates a granule and a page", "is no multiple of the granularity"));
  CHECK(Dies("reserves a page", "is no multiple of the granularity"));
}

TEST_CASE("Memory is mapped where it was reserved, once, and unmapped as a whole") {
  DriverFixture gpu;
  const auto handle = Create();
  const CUdeviceptr pointer = Reserve(2 * kGranule);
  CHECK(cuMemMap(pointer + 4 * kGranule, kGranule, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(pointer, 2 * kGranule, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(pointer, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap(pointer, kGranule, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(pointer, kGranule / 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree(pointer, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(pointer, kGranule) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(pointer, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

DYING_TEST_CASE("releases a handle twice") {
  DriverFixture gpu;
  const auto handle = Create();
  cuMemRelease(handle);
  cuMemRelease(handle);
}
DYING_TEST_CASE("maps a handle that was released") {
  DriverFixture gpu;
  const auto handle = Create();
  const CUdeviceptr pointer = Reserve(kGranule);
  cuMemRelease(handle);
  cuMemMap(pointer, kGranule, 0, handle, 0);
}
TEST_CASE("A handle that was released is not used again") {
  CHECK(Dies("releases a handle twice", "any more: cuMemRelease released it"));
  CHECK(Dies("maps a handle that was released", "any more: cuMemRelease released it"));
}

CUdeviceptr MapOne() {
  const CUdeviceptr pointer = Reserve(kGranule);
  REQUIRE(cuMemMap(pointer, kGranule, 0, Create(), 0) == CUDA_SUCCESS);
  return pointer;
}

void WriteWord(CUdeviceptr pointer) {
  const uint32_t word = 7;
  CHECK(cuMemcpyHtoD(pointer, &word, 4) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

DYING_TEST_CASE("writes memory without access") {
  DriverFixture gpu;
  WriteWord(MapOne());
}
DYING_TEST_CASE("writes memory that it may read") {
  DriverFixture gpu;
  const CUdeviceptr pointer = MapOne();
  REQUIRE(Allow(pointer, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS);
  WriteWord(pointer);
}
DYING_TEST_CASE("writes memory with access") {
  DriverFixture gpu;
  const CUdeviceptr pointer = MapOne();
  REQUIRE(Allow(pointer, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_SUCCESS);
  WriteWord(pointer);
}
TEST_CASE("Mapped memory is used as cuMemSetAccess allows") {
  CHECK(Dies("writes memory without access", "cuMemSetAccess gave device 0 no right"));
  CHECK(Dies("writes memory that it may read", "cuMemSetAccess gave device 0 no right"));
  CHECK(LastWords("writes memory with access").empty());
}

TEST_CASE("Neighbouring mappings are used as one") {
  DriverFixture gpu;
  const CUdeviceptr pointer = Reserve(2 * kGranule);
  const auto first = Create(), second = Create();
  REQUIRE(cuMemMap(pointer, kGranule, 0, first, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(pointer + kGranule, kGranule, 0, second, 0) == CUDA_SUCCESS);
  REQUIRE(Allow(pointer, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_SUCCESS);
  const std::vector<uint8_t> content = gpu.Read(pointer + kGranule - 8, 16);
  CHECK(content[0] != 0);
  CHECK(content[15] != 0);
  REQUIRE(cuMemUnmap(pointer, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(pointer, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cuMemRelease(first) == CUDA_SUCCESS);
  CHECK(cuMemRelease(second) == CUDA_SUCCESS);
}

unsigned AllowedHandleTypes(CUdeviceptr pointer) {
  unsigned types = 77;
  REQUIRE(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, pointer) == CUDA_SUCCESS);
  return types;
}

TEST_CASE("A pointer tells how its memory may be exported, also when the handle was released") {
  DriverFixture gpu;
  const CUmemAllocationHandleType file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUdeviceptr shared = Reserve(kGranule);
  const auto handle = Create(file);
  REQUIRE(cuMemMap(shared, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(AllowedHandleTypes(shared + 16) == file);
  CHECK(AllowedHandleTypes(MapOne()) == CU_MEM_HANDLE_TYPE_NONE);
  CHECK(AllowedHandleTypes(gpu.Memory(1024)) == CU_MEM_HANDLE_TYPE_NONE);
  int on_stack = 0;
  unsigned types = 0;
  CHECK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                              reinterpret_cast<CUdeviceptr>(&on_stack)) == CUDA_ERROR_INVALID_VALUE);

  CUmemGenericAllocationHandle retained = 0;
  REQUIRE(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(shared)) == CUDA_SUCCESS);
  int fd = -1;
  REQUIRE(cuMemExportToShareableHandle(&fd, retained, file, 0) == CUDA_SUCCESS);
  close(fd);
}

TEST_CASE("Memory is exported as it was created, and imported as the same memory") {
  DriverFixture gpu;
  int fd = -1;
  const auto closed = Create();
  CHECK(cuMemExportToShareableHandle(&fd, closed, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease(closed) == CUDA_SUCCESS);
  const CUmemAllocationProp fabric = Properties(CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle refused = 0;
  CHECK(cuMemCreate(&refused, kGranule, &fabric, 0) == CUDA_ERROR_NOT_SUPPORTED);

  const auto handle = Create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  REQUIRE(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  void* as_pointer = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  REQUIRE(cuMemImportFromShareableHandle(&imported, as_pointer, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
          CUDA_SUCCESS);
  const CUdeviceptr a = Reserve(kGranule), b = Reserve(kGranule);
  REQUIRE(cuMemMap(a, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(b, kGranule, 0, imported, 0) == CUDA_SUCCESS);
  REQUIRE(Allow(a, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_SUCCESS);
  REQUIRE(Allow(b, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32(a, 0x01020304, 1) == CUDA_SUCCESS);
  CHECK(gpu.Read(b, 1)[0] == 4);
  CHECK(cuMemUnmap(a, kGranule) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(b, kGranule) == CUDA_SUCCESS);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuMemRelease(imported) == CUDA_SUCCESS);
  close(fd);
  const int other = STDERR_FILENO;
  as_pointer = reinterpret_cast<void*>(static_cast<intptr_t>(other));
  CHECK(cuMemImportFromShareableHandle(&imported, as_pointer, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
        CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace emulator
