// What administrators are told of the RDMA ports, of a fake data plane that has some.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "server/rpc/admin.h"
#include "server/rpc/messages/messages.h"
#include "tests/support/server/job_table_fixture.h"
#include "tests/support/transports/gid_tables.h"

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
  Call call;
  REQUIRE(admin.Statistics(call, {}, reply).ok());
  return reply.server();
}

control::PlanReply plan_of(JobTableFixture& f) {
  AdminService admin(f.table, f.data_plane, "poll");
  control::PlanRequest request;
  request.set_name("demo");
  control::PlanReply reply;
  Call call;
  REQUIRE(admin.Plan(call, request, reply).ok());
  return reply;
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

TEST_CASE("a plan says which port serves each core and what each port is to carry") {
  JobTableFixture f;
  f.data_plane.ports = {port_on("mlx5_0"), port_on("mlx5_1", 2)};
  f.running(1);
  const control::PlanReply plan = plan_of(f);
  REQUIRE(plan.loads_size() == 2);
  CHECK(plan.loads(0).device() == "mlx5_0");
  CHECK(plan.loads(0).port() == 1);
  CHECK(plan.loads(1).device() == "mlx5_1");
  CHECK(plan.loads(1).port() == 2);
  REQUIRE(plan.port_loads_size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(plan.port_loads(i).device() == plan.loads(i).device());
    CHECK(plan.port_loads(i).chunks() == plan.loads(i).chunks());
    CHECK(plan.port_loads(i).bytes() == plan.loads(i).bytes());
    REQUIRE(plan.port_loads(i).cores_size() == 1);
    CHECK(plan.port_loads(i).cores(0) == static_cast<std::uint32_t>(i));
  }
}

TEST_CASE("the cores of one port are one load, also in a preview") {
  JobTableFixture f;
  f.data_plane.ports = {port_on("mlx5_0"), port_on("mlx5_0")};
  REQUIRE(f.table.life.create(spec_of(1)));
  const control::PlanReply plan = plan_of(f);
  CHECK(plan.is_preview());
  REQUIRE(plan.port_loads_size() == 1);
  CHECK(plan.port_loads(0).cores_size() == 2);
  CHECK(plan.port_loads(0).bytes() == plan.loads(0).bytes() + plan.loads(1).bytes());
  CHECK(plan.port_loads(0).bytes() == 51'000 * sizeof(float));
}

TEST_CASE("of another server's cores the ports are not known") {
  JobTableFixture f;
  f.data_plane.ports = {port_on("mlx5_0"), port_on("mlx5_0")};
  const JobSpec spec = spec_of(1);
  const Identity member = f.join(spec).value();
  const std::vector<std::uint32_t> cores = {3, kCores};
  REQUIRE(ready_now(f.table, member, {.cores_per_server = cores, .server_index = 1},
                    JobTableFixture::hash_of(spec, cores))
              .ok());
  const control::PlanReply plan = plan_of(f);
  REQUIRE(plan.loads_size() == 5);
  for (const control::CoreLoad& load : plan.loads()) {
    CHECK(load.device() == (load.server() == 1 ? "mlx5_0" : ""));
  }
  REQUIRE(plan.port_loads_size() == 1);
  CHECK(plan.port_loads(0).server() == 1);
}

TEST_CASE("without RDMA a plan has no ports") {
  JobTableFixture f;
  f.running(1);
  const control::PlanReply plan = plan_of(f);
  CHECK(plan.port_loads().empty());
  CHECK(plan.loads(0).device().empty());
}

TEST_CASE("what a peer wrote is shown without what could fool a log or a terminal") {
  CHECK(printable("through its mlx5_0", 99) == "through its mlx5_0");
  CHECK(printable("  a\r\n\tb ", 99) == "a b");
  CHECK(printable("say \"x\"", 99) == "say 'x'");
  CHECK(printable("\x7F\xC3\xA9", 99) == "??");
  CHECK(printable("", 99).empty());
  CHECK(printable("12345", 5) == "12345");
  CHECK(printable("123456", 5) == "12345...");
}

}  // namespace phub::testing
