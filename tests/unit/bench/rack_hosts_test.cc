// Scenarios with a worker and a server on one host, with latency, and what shapes of racks carry.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "bench/rack/scenario.h"
#include "bench/rack/testbed/fabric.h"

namespace phub::bench {
namespace {

constexpr double kMegabyte = 1e6;

RackScenario hosts_scenario(const std::string& text) {
  const auto scenario = parse_scenario(text, "s");
  INFO((scenario ? "" : scenario.error().message()));
  REQUIRE(scenario.has_value());
  return *scenario;
}

std::string hosts_refusal(const std::string& text) {
  const auto scenario = parse_scenario(text, "s");
  REQUIRE_FALSE(scenario.has_value());
  return scenario.error().message();
}

// As many racks of one host.
std::string racks_of_one(std::uint32_t count, const std::string& shape) {
  std::string text = "shape: \"" + shape + "\"\n";
  for (std::uint32_t i = 0; i < count; ++i) {
    text += "racks { workers: 1 servers: 1 colocated: true }\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a host with a worker and a server has one link, which carries what is not its own") {
  const Fabric fabric = plan_fabric(
      hosts_scenario("racks { workers: 4 servers: 4 colocated: true } links { worker_mbit: 50 }"),
      8 * kMegabyte);
  REQUIRE(fabric.hosts.size() == 4);
  REQUIRE(fabric.links.size() == 4);
  CHECK(fabric.hosts[2].name == "r0h2");
  for (const RackLink& link : fabric.links) {
    CHECK(link.mbit == 50);
    // Three quarters of its worker's, and three workers' quarters of its server's: 2 M (N-1) / N.
    CHECK(link.up_bytes == 12 * kMegabyte);
    CHECK(link.down_bytes == 12 * kMegabyte);
  }
}

TEST_CASE("four workers on their one server's host have a link that carries nothing") {
  const Fabric fabric = plan_fabric(
      hosts_scenario("racks { workers: 4 servers: 1 colocated: true } "
                     "racks { workers: 2 servers: 2 colocated: true uplink_mbit: 100 }"),
      8 * kMegabyte);
  REQUIRE(fabric.hosts.size() == 3);
  CHECK(fabric.hosts[0].workers == 4);
  CHECK(fabric.hosts[1].workers == 1);
  const Fabric alone =
      plan_fabric(hosts_scenario("racks { workers: 4 servers: 1 colocated: true }"), 8 * kMegabyte);
  CHECK(alone.links[0].up_bytes == 0);
  CHECK(alone.hosts[0].name == "r0h0");
}

TEST_CASE("a rack of one host is as its server to the others") {
  const Fabric fabric = plan_fabric(hosts_scenario(racks_of_one(2, "spread")), 8 * kMegabyte);
  REQUIRE(fabric.hosts.size() == 2);
  CHECK(fabric.hosts[1].name == "r1h0");
  CHECK(fabric.uplink(0).mbit == 100);
  CHECK(fabric.links[0].up_bytes == 8 * kMegabyte);
}

// M bytes, N = 8: 2 M (N-1) / N for all that spread their roots; k M, of 4 branches, at a tree's.
TEST_CASE("multicolour trees load eight hosts as a ring does, one tree alone loads some more") {
  for (const char* shape : {"spread", "chain", "multicolour"}) {
    INFO(shape);
    const Fabric fabric = plan_fabric(hosts_scenario(racks_of_one(8, shape)), 8 * kMegabyte);
    for (const RackLink& link : fabric.links) {
      CHECK(link.up_bytes == Approx(14 * kMegabyte));
      CHECK(link.down_bytes == Approx(14 * kMegabyte));
    }
  }
  const Fabric tree = plan_fabric(hosts_scenario(racks_of_one(8, "tree")), 8 * kMegabyte);
  CHECK(tree.links[0].up_bytes == 32 * kMegabyte);  // the root, with four below it
  CHECK(tree.links[1].up_bytes == 32 * kMegabyte);  // three below it, and one above
  CHECK(tree.links[2].down_bytes == 8 * kMegabyte);
  CHECK(bounding_link(tree).name == "r0h0");
}

TEST_CASE("messages follow each other up a shape's trees and down") {
  const auto messages = [](const std::string& text) {
    return messages_in_a_row(hosts_scenario(text));
  };
  CHECK(messages("racks { workers: 2 servers: 1 }") == 2);
  CHECK(messages(racks_of_one(8, "spread")) == 2);
  CHECK(messages(racks_of_one(8, "chain")) == 14);
  CHECK(messages(racks_of_one(8, "multicolour")) == 4);
  CHECK(messages(racks_of_one(8, "tree")) == 4);
  CHECK(messages("racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 } "
                 "shape: \"spread\"") == 4);
}

TEST_CASE("servers and workers are told the latency, and the worker that it may use memory") {
  const Work work = work_of(
      hosts_scenario("racks { workers: 2 servers: 2 colocated: true } links { latency_us: 1500 }\n"
                     "servers { tcp_buffer_kib: 32 }"));
  CHECK(work.tcp_buffer_kib == 32);
  CHECK(work.tcp_delay_us == 1500);
  CHECK(work.transport == "auto");
  CHECK(work_of(hosts_scenario("racks { workers: 2 servers: 2 }")).transport == "tcp");
}

TEST_CASE("what does not go with colocated hosts or latency is refused") {
  CHECK(
      hosts_refusal("racks { workers: 3 servers: 2 colocated: true }") ==
      "s:1:1: racks: colocated: 2 server(s) for 3 worker(s); give as many workers for each server");
  CHECK(hosts_refusal("racks { workers: 2 servers: 2 colocated: true } links { server_factor: 2 }")
            .find("server_factor: has no effect where all servers are on workers' hosts") !=
        std::string::npos);
  CHECK(hosts_refusal("racks { workers: 2 servers: 2 colocated: true }\n"
                      "faults { kind: KILL_SERVER server: 0 }")
            .find("are for hosts with one program") != std::string::npos);
  CHECK(hosts_refusal("racks { workers: 1 servers: 1 colocated: true hosts: \"a\" hosts: \"b\" }")
            .find("2 hosts for 1 server(s) and 1 worker(s), colocated; give 1") !=
        std::string::npos);
  CHECK(hosts_refusal("racks { workers: 1 servers: 1 } links { latency_us: 2000000 }")
            .find("links.latency_us: 2000000 is outside") != std::string::npos);
  CHECK(hosts_refusal("racks { workers: 1 servers: 1 } servers { tcp_buffer_kib: 4 }")
            .find("servers.tcp_buffer_kib: 4 is outside") != std::string::npos);
  CHECK(hosts_refusal("racks { workers: 2 servers: 1 } links { latency_us: 10 } peers: \"openmpi\"")
            .find("\"openmpi\" sends without links.latency_us") != std::string::npos);
  CHECK(hosts_refusal("racks { workers: 2 servers: 1 }\n"
                      "training { worker { tcp_buffer_kib: 64 } }")
            .find("tcp_buffer_kib: is the scenario's to set: servers.tcp_buffer_kib") !=
        std::string::npos);
  CHECK(hosts_refusal("racks { workers: 2 servers: 1 } links { latency_us: 10 }\n"
                      "training { worker { train { seed: 5 } } }")
            .find("training: sends without links.latency_us") != std::string::npos);
}

TEST_CASE("peers of joined racks may be phub's other shapes") {
  CHECK(hosts_scenario(racks_of_one(2, "chain") + "links { latency_us: 5 } peers: \"phub-tree\"")
            .peers(0) == "phub-tree");
  CHECK(shape_of_peer("phub-multicolour") == "multicolour");
  CHECK_FALSE(shape_of_peer("gloo-ring").has_value());
  CHECK(hosts_refusal("racks { workers: 2 servers: 1 } peers: \"phub-chain\"")
            .find("needs racks that are joined; set shape") != std::string::npos);
  CHECK(hosts_refusal(racks_of_one(2, "chain") + "peers: \"phub-chain\"")
            .find("is the scenario's own shape") != std::string::npos);
}

}  // namespace phub::bench
