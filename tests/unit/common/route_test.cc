// Which port reaches a peer's, on invented machines.
#include "common/transport/verbs/device/route.h"

#include <catch2/catch.hpp>

#include "tests/support/transports/gid_tables.h"

namespace phub::transport::verbs {
namespace {

using Catch::Contains;

PeerPort ipv4_peer() {
  return {"the server's mlx5_9", LinkLayer::kEthernet, gid(3, GidType::kRoceV2, "::ffff:10.0.0.9")};
}

std::vector<PortChoice> choices_of(const std::vector<DeviceInfo>& devices) {
  return choose_ports(devices, {}).value();
}

}  // namespace

TEST_CASE("the first port on the peer's fabric is the route, with the peer's kind of GID") {
  const auto choices =
      choices_of({device("ib0", {infiniband_port({gid(0, GidType::kInfiniBand, "fe80::1", "")})}),
                  device("mlx5_0", {ethernet_port(usual_table())})});
  const Route route = choose_route(choices, ipv4_peer(), std::nullopt).value();
  CHECK(route.choice.device.name == "mlx5_0");
  CHECK(route.gid.index == 3);
  const PeerPort old{"old", LinkLayer::kEthernet, gid(0, GidType::kRoceV1, "::ffff:10.0.0.9")};
  CHECK(choose_route(choices, old, std::nullopt)->gid.type == GidType::kRoceV1);
}

TEST_CASE("the search begins where it is told to and goes around") {
  const auto choices = choices_of({device("mlx5_0", {ethernet_port(usual_table())}),
                                   device("mlx5_1", {ethernet_port(usual_table())})});
  for (const std::size_t first : {0U, 1U, 2U, 3U}) {
    const Route route = choose_route(choices, ipv4_peer(), std::nullopt, first).value();
    CHECK(route.choice.device.name == (first % 2 == 0 ? "mlx5_0" : "mlx5_1"));
  }
}

TEST_CASE("without a route every port has its reason") {
  const auto choices = choices_of(
      {device("ib0", {infiniband_port({gid(0, GidType::kInfiniBand, "fe80::1", "")})}),
       device("mlx5_0", {ethernet_port({gid(0, GidType::kRoceV1, "::ffff:10.0.0.5")})})});
  const auto route = choose_route(choices, ipv4_peer(), std::nullopt);
  REQUIRE_FALSE(route);
  CHECK(route.error().code() == Code::kNotFound);
  CHECK_THAT(route.error().message(), Contains("no RDMA port here reaches the server's mlx5_9") &&
                                          Contains("ib0 port 1 is InfiniBand") &&
                                          Contains("mlx5_0 port 1:") && Contains("RoCE v2"));
}

}  // namespace phub::transport::verbs
