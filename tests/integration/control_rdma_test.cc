// What administrators are told of the RDMA ports, of a fake data plane that has some.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "server/control_service_admin.h"
#include "tests/support/gid_tables.h"
#include "tests/support/job_table_fixture.h"

namespace phub::testing {
namespace {

using transport::verbs::GidType;
using transport::verbs::LinkLayer;

CorePort port_on(const std::string& device, std::uint8_t number = 1) {
  return {.device = device,
          .port = number,
          .link_layer = LinkLayer::kEthernet,
          .gid = transport::verbs::gid(3, GidType::kRoceV2, "::ffff:10.0.0.5")};
}

control::ServerInfo statistics_of(JobTableFixture& f) {
  AdminService admin(f.table, f.data_plane, "poll");
  control::StatisticsReply reply;
  REQUIRE(admin.Statistics(nullptr, nullptr, &reply).ok());
  return reply.server();
}

}  // namespace

TEST_CASE("statistics show each port with its address, its state and all of its counters") {
  JobTableFixture f;
  f.data_plane.statuses = {
      {.identity = port_on("mlx5_0", 2),
       .numa_node = 1,
       .state = "active",
       .mtu_bytes = 4096,
       .cores = {0, 1},
       .counters = {{"port_xmit_data", 250}, {"out_of_sequence", 3}, {"lid", 0}}}};
  const control::ServerInfo server = statistics_of(f);
  REQUIRE(server.ports_size() == 1);
  const control::PortInfo& port = server.ports(0);
  CHECK(port.device() == "mlx5_0");
  CHECK(port.port() == 2);
  CHECK(port.link_layer() == "Ethernet");
  CHECK(port.state() == "active");
  CHECK(port.mtu_bytes() == 4096);
  CHECK(port.numa_node() == 1);
  CHECK(std::vector<std::uint32_t>(port.cores().begin(), port.cores().end()) ==
        std::vector<std::uint32_t>{0, 1});
  CHECK(port.gid_index() == 3);
  CHECK(port.gid() == "::ffff:10.0.0.5");
  CHECK(port.gid_type() == "RoCE v2");
  REQUIRE(port.counters_size() == 3);
  CHECK(port.counters(0).value() == 250);
  CHECK(port.counters(1).kind() == "losses");
  CHECK(port.counters(2).kind().empty());
}

TEST_CASE("statistics tell traffic in bytes, and leave out what a port does not count") {
  JobTableFixture f;
  f.data_plane.statuses = {{.identity = port_on("mlx5_0"), .counters = {{"port_xmit_data", 250}}},
                           {.identity = port_on("rxe0"), .counters = {{"sent_pkts", 0}}}};
  const control::ServerInfo server = statistics_of(f);
  CHECK(server.ports(0).bytes_sent() == 1000);
  CHECK_FALSE(server.ports(0).has_bytes_received());
  CHECK_FALSE(server.ports(1).has_bytes_sent());
  CHECK(server.ports(1).has_packets_sent());
  CHECK(server.ports(1).packets_sent() == 0);
}

}  // namespace phub::testing
