#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"

namespace xla::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Device and process.
absl::flat_hash_map<GlobalDeviceId, ProcessId> Devices(const std::vector<std::pair<int, int>>& numbers) {
  absl::flat_hash_map<GlobalDeviceId, ProcessId> devices;
  for (const auto& [device, process] : numbers) devices[GlobalDeviceId(device)] = ProcessId(process);
  return devices;
}

TEST(JobTopologyTest, ConsecutiveDevicesShareProcessesAndDomains) {
  const auto topology = UniformTopology(8, 2, 4);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->num_processes(), 4);
  EXPECT_EQ(topology->max_devices_per_process(), 2);
  EXPECT_EQ(topology->Find(5)->process, 2);
  EXPECT_EQ(topology->Find(5)->nvlink_domain, 1);
  EXPECT_EQ(topology->Find(5)->pe, 5);
}

TEST(JobTopologyTest, TheLastProcessMayHaveFewerDevices) {
  const auto topology = UniformTopology(5, 2, 0);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->num_processes(), 3);
}

TEST(JobTopologyTest, AnUnknownCountIsOne) {
  const auto topology = UniformTopology(4, 0, 0);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->num_processes(), 4);
  EXPECT_NE(topology->Find(0)->nvlink_domain, topology->Find(1)->nvlink_domain);
}

TEST(JobTopologyTest, ANegativeCountIsAnError) {
  EXPECT_THAT(std::string(UniformTopology(4, -1, 0).status().message()), HasSubstr("-1 per process"));
}

TEST(JobTopologyTest, ARunningJobIsOneDomainWithTheProcessesItHas) {
  // XLA numbers devices by network proximity, which need not be the order of processes.
  const auto topology = RunningTopology(Devices({{0, 2}, {1, 0}, {2, 1}}), {0, 1, 0}, std::nullopt);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->num_processes(), 3);
  EXPECT_EQ(topology->max_devices_per_process(), 1);
  EXPECT_EQ(topology->Find(0)->pe, 2);
  EXPECT_EQ(topology->Find(2)->process, 1);
  EXPECT_EQ(xla_shmem::PlaceModule({0, 1, 2}, *topology).num_nvlink_domains, 1);
}

TEST(JobTopologyTest, AnOptionDividesARunningJobIntoDomainsByProcessOrHost) {
  const auto devices = Devices({{10, 3}, {11, 0}, {12, 1}, {13, 2}});
  const auto domains = [&](int64_t option) {
    const auto topology = RunningTopology(devices, {0, 0, 0, 1}, option);
    EXPECT_TRUE(topology.ok()) << topology.status();
    std::vector<int32_t> of_processes;
    for (const int64_t id : {11, 12, 13, 10}) of_processes.push_back(topology->Find(id)->nvlink_domain);
    return of_processes;
  };
  EXPECT_THAT(domains(2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(domains(0), ElementsAre(0, 0, 0, 1));
}

TEST(JobTopologyTest, TwoDevicesOfOneProcessCannotBothBeItsPe) {
  EXPECT_THAT(std::string(RunningTopology(Devices({{0, 0}, {1, 0}}), {0}, std::nullopt).status().message()),
              HasSubstr("PE 0 is given to"));
}

TEST(JobTopologyTest, AModuleOnHighDevicesNeedsAJobThatHasThem) {
  const auto module = ParseEntry("ROOT r = f32[4] add(p, q)", 2);
  EXPECT_EQ(NumJobDevices(*module), 2);
  PlaceOn({{6}, {3}}, module.get());
  EXPECT_EQ(NumJobDevices(*module), 7);
}

}  // namespace
}  // namespace xla::gpu
