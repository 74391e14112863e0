// Invented RDMA devices, ports and GID tables.
#pragma once

#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/transport/verbs/device/device.h"

namespace phub::transport::verbs {

inline Gid gid(std::uint32_t index, GidType type, const std::string& address,
               const std::string& netdev = "eth0") {
  Gid made{.index = index, .type = type, .netdev = netdev};
  REQUIRE(::inet_pton(AF_INET6, address.c_str(), made.bytes.data()) == 1);
  return made;
}

// As a card with one IPv4 address has it: every address in both versions, link-local ones first.
inline std::vector<Gid> usual_table() {
  return {gid(0, GidType::kRoceV1, "fe80::5054:ff:fe12:3456"),
          gid(1, GidType::kRoceV2, "fe80::5054:ff:fe12:3456"),
          gid(2, GidType::kRoceV1, "::ffff:10.0.0.5"), gid(3, GidType::kRoceV2, "::ffff:10.0.0.5")};
}

inline Port ethernet_port(std::vector<Gid> gids, std::uint8_t number = 1) {
  return {.number = number,
          .active = true,
          .state = "active",
          .link_layer = LinkLayer::kEthernet,
          .lid = 0,
          .mtu_bytes = 4096,
          .mtu_bytes_max = 4096,
          .speed = "100 Gb/sec (4X EDR)",
          .gids = std::move(gids),
          .netdev = "eth0"};
}

inline Port infiniband_port(std::vector<Gid> gids, std::uint8_t number = 1) {
  Port port = ethernet_port(std::move(gids), number);
  port.link_layer = LinkLayer::kInfiniBand;
  port.lid = 7;
  port.netdev.clear();
  return port;
}

inline Port down(Port port) {
  port.active = false;
  port.state = "down";
  return port;
}

inline DeviceInfo device(const std::string& name, std::vector<Port> ports) {
  DeviceInfo made;
  made.name = name;
  made.ports = std::move(ports);
  return made;
}

}  // namespace phub::transport::verbs
