#include "xla_patch/assigner/topology.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

Topology Make(std::vector<DeviceLocation> devices) {
  auto made = Topology::Create(std::move(devices));
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

std::string CreateError(std::vector<DeviceLocation> devices) { return Topology::Create(std::move(devices)).message(); }

TEST_CASE("devices are found by global id, dense or not") {
  const Topology topology = Make({{100, 1, 0, 0, 1}, {7, 0, 0, 0, 0}});
  REQUIRE(topology.Find(100) != nullptr);
  CHECK(topology.Find(100)->pe == 1);
  CHECK(topology.Find(7)->process == 0);
  CHECK(topology.Find(0) == nullptr);
  CHECK(topology.Find(-1) == nullptr);
  CHECK(topology.devices()[0].device_id == 7);
}

TEST_CASE("processes are counted with their devices") {
  const Topology topology = Make({{0, 0, 0, 0, 0}, {1, 0, 0, 0, 1}, {2, 1, 0, 0, 2}});
  CHECK(topology.num_processes() == 2);
  CHECK(topology.max_devices_per_process() == 2);
  CHECK(Topology().max_devices_per_process() == 0);
}

TEST_CASE("a device id or PE that occurs twice is refused by name") {
  CHECK(CreateError({{3, 0, 0, 0, 0}, {3, 1, 0, 0, 1}}) == "topology: device 3 is listed twice");
  CHECK(CreateError({{3, 0, 0, 0, 5}, {4, 1, 0, 0, 5}}) == "topology: PE 5 is given to device 3 and to device 4");
  CHECK(CreateError({{3, 0, 0, 0, -1}}).find("negative") != std::string::npos);
}

TEST_CASE("the fingerprint depends on every field but not on the order") {
  const std::vector<DeviceLocation> devices = {{0, 0, 0, 0, 0}, {1, 1, 0, 0, 1}};
  const uint64_t fingerprint = Make(devices).Fingerprint();
  CHECK(Make({devices[1], devices[0]}).Fingerprint() == fingerprint);
  CHECK(fingerprint == 0xd25ea8df54455a86);  // computed apart; stored in executables: must never change
  CHECK(Make({{0, 0, 0, 0, 1}, {1, 1, 0, 0, 0}}).Fingerprint() != fingerprint);
  CHECK(Make({{0, 0, 0, 0, 0}, {1, 1, 1, 0, 1}}).Fingerprint() != fingerprint);
  CHECK(Make({{0, 0, 0, 0, 0}, {1, 1, 0, 1, 1}}).Fingerprint() != fingerprint);
  CHECK(Make({{0, 0, 0, 0, 0}, {1, 0, 0, 0, 1}}).Fingerprint() != fingerprint);
}

TEST_CASE("a module's placement counts the NVLink domains of its own devices only") {
  const Topology topology = Make({{0, 0, 0, 0, 0}, {1, 0, 0, 0, 1}, {2, 1, 1, 1, 2}});
  CHECK(PlaceModule({0, 1}, topology).num_nvlink_domains == 1);
  CHECK(PlaceModule({0, 2}, topology).num_nvlink_domains == 2);
  CHECK(PlaceModule({0, 9}, topology).num_nvlink_domains == 0);
  CHECK(PlaceModule({0, 2}, topology).num_devices == 2);
}

}  // namespace
}  // namespace xla_shmem
