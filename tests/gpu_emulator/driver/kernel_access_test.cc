// Kernels that access what they may not, and kernels that are not understood.
#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "driver/death.h"
#include "driver/driver_fixture.h"

namespace emulator {
namespace {

// Launches a kernel of one thread whose parameter is `pointer`, which is in %p; returns what the stream says.
CUresult RunKernel(const std::string& instructions, CUdeviceptr pointer) {
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 pointer)\n{\n" +
      std::string(".reg .b64 %p;\n.reg .b32 %x;\nld.param.u64 %p, [pointer];\n") + instructions + "\nret;\n}\n";
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, text.c_str()) == CUDA_SUCCESS);
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction(&function, module, "k") == CUDA_SUCCESS);
  const CUstream stream = DriverFixture::Stream();
  std::vector<void*> parameters = {&pointer};
  REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.data(), nullptr) == CUDA_SUCCESS);
  return cuStreamSynchronize(stream);
}

// Ends the process with the launch's message on stderr, which LastWords reads.
void ExpectFailure(CUresult result) {
  if (result != CUDA_SUCCESS) _exit(1);
}

}  // namespace

TEST_CASE("A kernel reads and writes an allocation up to its end") {
  DriverFixture gpu;
  const CUdeviceptr memory = gpu.Memory(1024);
  CHECK(RunKernel("st.global.b32 [%p+1020], 7;\nld.global.b32 %x, [%p];", memory) == CUDA_SUCCESS);
  CHECK(gpu.Read(memory + 1020, 4)[0] == 7);
}

DYING_TEST_CASE("runs a kernel that writes beyond an allocation") {
  DriverFixture gpu;
  ExpectFailure(RunKernel("st.global.b32 [%p+1024], 7;", gpu.Memory(1024)));
}
DYING_TEST_CASE("runs a kernel that reads freed memory") {
  DriverFixture gpu;
  const CUdeviceptr memory = gpu.Memory(1024);
  cuMemFree(memory);
  ExpectFailure(RunKernel("ld.global.b32 %x, [%p+8];", memory));
}
DYING_TEST_CASE("runs a kernel that reads the host's memory") {
  DriverFixture gpu;
  static uint32_t word = 0;
  ExpectFailure(RunKernel("ld.global.b32 %x, [%p];", DriverFixture::Address(&word)));
}
TEST_CASE("A kernel's access outside of what its device may access ends the launch with the address") {
  const char* const message = "is not in an allocation that the device can access";
  CHECK(Dies("runs a kernel that writes beyond an allocation", message));
  CHECK(Dies("runs a kernel that reads freed memory", message));
  CHECK(Dies("runs a kernel that reads the host's memory", message));
}

DYING_TEST_CASE("runs a kernel with an instruction that is not understood") {
  DriverFixture gpu;
  const CUdeviceptr memory = gpu.Memory(1024);
  ExpectFailure(RunKernel("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%x}, {%x}, {%x}, {%x};", memory));
}
TEST_CASE("The module of a kernel that is not understood loads, and its launch names the instruction") {
  CHECK(Dies("runs a kernel with an instruction that is not understood",
             "kernel k: not understood: mma.sync.aligned.m16n8k8"));
}

DYING_TEST_CASE("runs a kernel that traps") {
  DriverFixture gpu;
  ExpectFailure(RunKernel("trap;", gpu.Memory(1024)));
}
TEST_CASE("A trap fails the context") { CHECK(Dies("runs a kernel that traps", "lanes 0x00000001: trap, at: trap")); }

}  // namespace emulator
