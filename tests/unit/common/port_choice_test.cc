// Which port of invented devices is chosen, and what is said about the others.
#include "common/transport/verbs/device/port_choice.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/transports/gid_tables.h"

namespace phub::transport::verbs {
namespace {

using Catch::Contains;

// Two cards: the first port of the first is down.
std::vector<DeviceInfo> two_cards() {
  return {device("mlx5_0", {down(ethernet_port(usual_table())), ethernet_port(usual_table(), 2)}),
          device("mlx5_1", {ethernet_port(usual_table())})};
}

std::string chosen_port(const std::vector<DeviceInfo>& devices,
                        const std::vector<std::string>& names) {
  const auto choice = choose_port(devices, names);
  REQUIRE(choice);
  return choice->device.name + ":" + std::to_string(choice->port.number);
}

std::string port_refusal(const std::vector<DeviceInfo>& devices,
                         const std::vector<std::string>& names) {
  const auto choice = choose_port(devices, names);
  REQUIRE(!choice);
  CHECK(choice.error().code() == Code::kNotFound);
  return choice.error().message();
}

}  // namespace

TEST_CASE("the first active port of all devices is taken") {
  CHECK(chosen_port(two_cards(), {}) == "mlx5_0:2");
}

TEST_CASE("the others are listed with their reasons") {
  CHECK(choose_port(two_cards(), {})->rejected ==
        std::vector<std::string>{"mlx5_0 port 1: down",
                                 "mlx5_1 port 1: could be used too, but is not the first"});
  CHECK(choose_port(two_cards(), {"mlx5_0"})->rejected ==
        std::vector<std::string>{"mlx5_0 port 1: down", "mlx5_1 port 1: not in verbs_devices"});
}

TEST_CASE("names restrict the devices, in the order of the names") {
  CHECK(chosen_port(two_cards(), {"mlx5_1"}) == "mlx5_1:1");
  CHECK(chosen_port(two_cards(), {"mlx5_1", "mlx5_0"}) == "mlx5_1:1");
  CHECK(chosen_port(two_cards(), {"mlx5_0", "mlx5_1"}) == "mlx5_0:2");
  CHECK(chosen_port(two_cards(), {"mlx5_1", "mlx5_1"}) == "mlx5_1:1");
}

TEST_CASE("a name may mean one port") {
  CHECK(chosen_port(two_cards(), {"mlx5_0:2"}) == "mlx5_0:2");
  CHECK(chosen_port(two_cards(), {"mlx5_0:1", "mlx5_1:1"}) == "mlx5_1:1");
  CHECK_THAT(port_refusal(two_cards(), {"mlx5_0:1"}),
             Contains("mlx5_0 port 1: down") && Contains("mlx5_0 port 2: not in verbs_devices"));
}

TEST_CASE("a name that means nothing is said and passed over") {
  const auto choice = choose_port(two_cards(), {"mlx5_7", "mlx5_1"});
  REQUIRE(choice);
  CHECK(choice->device.name == "mlx5_1");
  CHECK(choice->rejected.front() == "mlx5_7 (verbs_devices): there is no such device or port");
  CHECK_THAT(port_refusal(two_cards(), {"mlx5"}),
             Contains("mlx5 (verbs_devices): there is no such") &&
                 Contains("mlx5_0 port 1: not in verbs_devices"));
}

TEST_CASE("a device that is unusable is passed over with its own words") {
  std::vector<DeviceInfo> devices = two_cards();
  devices.front().unusable = "it speaks iWARP";
  CHECK(chosen_port(devices, {}) == "mlx5_1:1");
  DeviceInfo closed = device("mlx5_2", {});
  closed.unusable = "it cannot be opened";
  CHECK_THAT(port_refusal({closed}, {}), Contains("mlx5_2: it cannot be opened"));
  CHECK_THAT(port_refusal({device("odd0", {})}, {}), Contains("odd0: it has no port"));
}

TEST_CASE("a port without GIDs is passed over") {
  CHECK(chosen_port({device("a", {ethernet_port({})}), device("b", {ethernet_port(usual_table())})},
                    {}) == "b:1");
  CHECK_THAT(port_refusal({device("a", {ethernet_port({})})}, {}),
             Contains("its GID table is empty"));
}

TEST_CASE("no device is answered with what to do without") {
  CHECK_THAT(port_refusal({}, {}), Contains("there is no RDMA device") && Contains("tcp") &&
                                       Contains("rdma link add rxe0 type rxe netdev eth0"));
}

}  // namespace phub::transport::verbs
