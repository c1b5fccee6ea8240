#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/bootstrap.h"

namespace xla_shmem::testing {
namespace {

using gpu::CheckWorld;
using gpu::WorldMember;

constexpr size_t kGib = size_t{1} << 30;

// A process for each host, each with a GPU and an IMEX channel of its own.
std::vector<WorldMember> OnHosts(const std::vector<std::string>& hosts) {
  std::vector<WorldMember> members;
  for (const std::string& host : hosts) {
    const int process = static_cast<int>(members.size());
    members.push_back({process, host, "0000:0" + std::to_string(process) + ":00.0", 1, kGib});
  }
  return members;
}

TEST_CASE("GPUs of one host need no IMEX channel") {
  std::vector<WorldMember> members = OnHosts({"a", "a"});
  members[1].imex_channels = 0;
  CHECK(CheckWorld(members, kGib).ok());
  CHECK(gpu::CountHosts(members) == 1);
}

TEST_CASE("On several hosts a process without an IMEX channel is named") {
  std::vector<WorldMember> members = OnHosts({"a", "b"});
  CHECK(CheckWorld(members, kGib).ok());
  CHECK(gpu::CountHosts(members) == 2);
  members[1].imex_channels = 0;
  CHECK(CheckWorld(members, kGib).message() ==
        "process 1 sees no channel in /dev/nvidia-caps-imex-channels, without which GPUs of several hosts cannot map "
        "each other's memory: start nvidia-imex and give the job a channel");
}

TEST_CASE("Hosts with different numbers of PEs are refused with the numbers") {
  CHECK(CheckWorld(OnHosts({"a", "a", "b"}), kGib).message() ==
        "NVSHMEM needs the same number of PEs on every host; hosts of this NVLink domain have 1 to 2");
}

TEST_CASE("A heap fits into exactly the free memory and not into less") {
  std::vector<WorldMember> members = OnHosts({"a", "a", "a"});
  CHECK(CheckWorld(members, kGib).ok());
  members[2].free_bytes = kGib - 1;
  CHECK(CheckWorld(members, kGib).message() ==
        "process 2 has 1073741823 bytes of free GPU memory, NVSHMEM takes 1073741824 for each of 1 processes on that "
        "GPU: lower XLA_SHMEM_HEAP_SIZE, or set NVSHMEM_CUMEM_GRANULARITY");
}

TEST_CASE("Processes on one GPU need memory for all of them, and equal addresses on two hosts are two GPUs") {
  std::vector<WorldMember> members = OnHosts({"a", "a", "b", "b"});
  members[2].bus_id = members[0].bus_id;
  CHECK(CheckWorld(members, kGib).ok());
  members[1].bus_id = members[0].bus_id;
  CHECK(CheckWorld(members, kGib).message().find("process 0 has 1073741824 bytes") == 0);
  CHECK(CheckWorld(members, kGib).message().find("for each of 2 processes on that GPU") != std::string::npos);
  CHECK(CheckWorld(members, kGib / 2).ok());
}

TEST_CASE("IMEX channels are counted by their files, and a folder that does not exist has none") {
  std::string folder = std::filesystem::temp_directory_path() / "imex-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  CHECK(gpu::CountImexChannels(folder) == 0);
  for (const char* name : {"channel0", "channel17", "other"}) std::ofstream(folder + "/" + name) << "";
  CHECK(gpu::CountImexChannels(folder) == 2);
  std::filesystem::remove_all(folder);
  CHECK(gpu::CountImexChannels(folder) == 0);
}

}  // namespace
}  // namespace xla_shmem::testing
