// What list_devices makes of a libibverbs that a test answers for, and of the real one.
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>

#include "common/transport/verbs/device/device.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/transports/fake_verbs_devices.h"
#include "tests/support/transports/gid_tables.h"

namespace phub::transport::verbs {
namespace {

using Catch::Contains;
using tests::fake_verbs;

// One card with an Ethernet port and an InfiniBand port that waits for its subnet manager.
void show_one_card() {
  fake_verbs() = {};
  DeviceInfo card = device(
      "mlx5_0", {ethernet_port(usual_table()),
                 down(infiniband_port({gid(0, GidType::kInfiniBand, "fe80::2:c903:1", "")}, 2))});
  card.limits = {.max_qp = 131072,
                 .max_qp_wr = 32768,
                 .max_sge = 30,
                 .max_cqe = 4194303,
                 .max_mr = 16777216,
                 .max_mr_size = UINT64_MAX,
                 .max_srq = 65536,
                 .max_srq_wr = 0};
  fake_verbs().devices = {card};
}

// The only device's `unusable`.
std::string complaint() {
  const auto devices = list_devices("/nonexistent");
  REQUIRE(devices);
  REQUIRE(devices->size() == 1);
  CHECK(fake_verbs().open_devices == 0);
  CHECK(fake_verbs().open_lists == 0);
  return devices->front().unusable;
}

}  // namespace

TEST_CASE("a device has its limits, its ports and their GIDs in the order of the indexes") {
  show_one_card();
  const auto devices = list_devices("/nonexistent");
  REQUIRE(devices);
  const DeviceInfo& card = devices->at(0);
  CHECK(card.name == "mlx5_0");
  CHECK(card.unusable.empty());
  CHECK(card.limits.max_qp == 131072);
  CHECK(card.limits.max_qp_wr == 32768);
  CHECK(card.limits.max_sge == 30);
  CHECK(card.limits.max_cqe == 4194303);
  CHECK(card.limits.max_mr == 16777216);
  CHECK(card.limits.max_mr_size == UINT64_MAX);
  CHECK(card.limits.max_srq == 65536);
  CHECK(card.limits.max_srq_wr == 0);  // it said -1
  REQUIRE(card.ports.size() == 2);
  const Port& ethernet = card.ports[0];
  CHECK(ethernet.number == 1);
  CHECK(ethernet.active);
  CHECK(ethernet.state == "active");
  CHECK(ethernet.link_layer == LinkLayer::kEthernet);
  CHECK(ethernet.mtu_bytes == 1024);
  CHECK(ethernet.mtu_bytes_max == 4096);
  CHECK(ethernet.netdev == "lo");
  REQUIRE(ethernet.gids.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK(ethernet.gids[i].index == i);
    CHECK(ethernet.gids[i].type == usual_table()[i].type);
    CHECK(ethernet.gids[i].bytes == usual_table()[i].bytes);
    CHECK(ethernet.gids[i].netdev == "lo");
  }
}

TEST_CASE("a port on InfiniBand has its lid and no interface") {
  show_one_card();
  const Port port = list_devices("/nonexistent")->at(0).ports.at(1);
  CHECK(port.number == 2);
  CHECK_FALSE(port.active);
  CHECK(port.state == "initialising");
  CHECK(port.link_layer == LinkLayer::kInfiniBand);
  CHECK(port.lid == 7);
  CHECK(port.netdev.empty());
  REQUIRE(port.gids.size() == 1);
  CHECK(port.gids[0].type == GidType::kInfiniBand);
}

TEST_CASE("NUMA node and speed come from sysfs, and are unknown without") {
  show_one_card();
  const TemporaryDirectory sysfs;
  const std::string folder = "class/infiniband/mlx5_0";
  std::filesystem::create_directories(sysfs.path / folder / "device");
  std::filesystem::create_directories(sysfs.path / folder / "ports/1");
  sysfs.write(folder + "/device/numa_node", "1\n");
  sysfs.write(folder + "/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  const DeviceInfo card = list_devices(sysfs.path.string())->at(0);
  CHECK(card.numa_node == 1);
  CHECK(card.ports[0].speed == "100 Gb/sec (4X EDR)");
  const DeviceInfo other = list_devices("/nonexistent")->at(0);
  CHECK(other.numa_node == -1);
  CHECK(other.ports[0].speed.empty());
}

TEST_CASE("no device and a kernel without RDMA are an empty list, another failure is an error") {
  fake_verbs() = {};
  CHECK(list_devices()->empty());
  fake_verbs().list_error = ENOSYS;
  CHECK(list_devices()->empty());
  fake_verbs().list_error = EPERM;
  const auto devices = list_devices();
  REQUIRE(!devices);
  CHECK(devices.error().code() == Code::kUnavailable);
  CHECK_THAT(devices.error().message(), Contains("ib_uverbs") && Contains("not permitted"));
}

TEST_CASE("a device that does not open is listed with the cure") {
  show_one_card();
  fake_verbs().does_not_open = "mlx5_0";
  CHECK_THAT(complaint(), Contains("/dev/infiniband") && Contains("Permission denied"));
}

TEST_CASE("a device that does not answer is listed with the call, and closed again") {
  for (const char* call : {"ibv_query_device", "ibv_query_port", "ibv_query_gid_table"}) {
    show_one_card();
    fake_verbs().failing_call = call;
    CHECK_THAT(complaint(), Contains(call) && Contains("Input/output error"));
  }
}

TEST_CASE("a device that speaks iWARP is listed as unusable") {
  show_one_card();
  fake_verbs().is_iwarp = true;
  CHECK_THAT(complaint(), Contains("iWARP"));
}

}  // namespace phub::transport::verbs
