// Where a reply came from, and what another rack may have this server connect to.
#include "common/rendezvous/peer_host.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "common/base/first_line.h"
#include "common/rendezvous/rendezvous.h"
#include "tests/support/server/racks/fake_rack.h"

namespace phub::testing {
namespace {

using client::host_of_peer;

constexpr std::chrono::minutes kWhile{2};
const JobSpec kOneKey{.name = "demo", .workers = 1, .keys = {{"w", 10}}};

}  // namespace

TEST_CASE("a peer's name says its numeric address") {
  CHECK(host_of_peer("ipv4:10.0.0.1:7077") == "10.0.0.1");
  CHECK(host_of_peer("ipv6:[::1]:7077") == "::1");
  CHECK(host_of_peer("ipv6:%5B::1%5D:7077") == "::1");
  CHECK(host_of_peer("ipv6:%5Bfe80::1%25eth0%5D:7077") == "fe80::1%eth0");
  CHECK(host_of_peer("ipv6:%5B::ffff:10.0.0.1%5D:7077") == "10.0.0.1");
  for (const char* const other : {"", "unix:/run/x", "unix-abstract:x", "ipv4:", "ipv4:10.0.0.1",
                                  "ipv6:%5", "ipv6:%5B::1", "dns:b:1"}) {
    INFO(other);
    CHECK_FALSE(host_of_peer(other));
  }
}

TEST_CASE("loopback is this host, an address for documents is not") {
  CHECK(client::is_own_address("127.0.0.1"));
  CHECK(client::is_own_address("::1"));
  CHECK_FALSE(client::is_own_address("192.0.2.1"));
  CHECK_FALSE(client::is_own_address("2001:db8::1"));
  CHECK_FALSE(client::is_own_address(""));
}

TEST_CASE("another rack's data plane is where its reply came from") {
  FakeRack rack;
  rack.on_joined = [](control::JoinReply& reply) {
    reply.set_boot_id(first_line(kBootId));
    reply.set_shm_socket("phub-1-2");
  };
  // The name could mean another address when the data plane is connected.
  const std::string name = "localhost" + rack.address.substr(rack.address.find(':'));
  const auto server = std::move(*client::Rendezvous::create(name));
  const auto joined = server->join_as_rack(kOneKey, {"a", "127.0.0.1:1"}, kWhile);
  REQUIRE(joined);
  CHECK(joined->host == "127.0.0.1");
  CHECK(joined->same_host);
}

TEST_CASE("a reply that names a socket which is no phub-server's is refused") {
  for (const std::string& socket :
       {std::string("/tmp/.X11-unix/X0"), std::string("dbus-1"), std::string("phub-\0x", 7),
        std::string("phub-1\n"), "phub-" + std::string(200, '1')}) {
    FakeRack rack;
    rack.on_joined = [&](control::JoinReply& reply) { reply.set_shm_socket(socket); };
    const auto server = std::move(*client::Rendezvous::create(rack.address));
    const auto joined = server->join_as_rack(kOneKey, {"a", "127.0.0.1:1"}, kWhile);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().message() == rack.address + " sent a join reply that makes no sense");
  }
}

}  // namespace phub::testing
