#include "server/directory/server_keys.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "common/base/rack.h"

namespace phub::server {
namespace {

using Change = ServerKeys::Change;

const ServerKey kOwn{.rack = "a", .address = "10.0.0.1:7400"};

ServerKeys no_keys() { return {"/phub/racks", 8, 4}; }

TEST_CASE("a key of a server says its rack and its address") {
  for (const char* const address :
       {"10.0.0.2:7400", "[::1]:7400", "b2.example:1", "[fe80::1%eth0]:65535"}) {
    const std::string key = server_key("/phub/racks", {.rack = "b-1", .address = address});
    CHECK(key == std::string("/phub/racks/b-1/") + address);
    const auto server = parse_server_key("/phub/racks", key);
    REQUIRE(server);
    CHECK(server->rack == "b-1");
    CHECK(server->address == address);
    const auto nested = parse_server_key(
        "/phub/racks", server_key("/phub/racks", {.rack = "site1/row2/b", .address = address}));
    REQUIRE(nested);
    CHECK(nested->rack == "site1/row2/b");
    CHECK(nested->address == address);
  }
}

TEST_CASE("no other key is a server's") {
  const std::string long_rack(kRackNameCharsMax + 1, 'r');
  const std::string long_host(kServerAddressCharsMax, 'h');
  for (const std::string& key : {std::string(),
                                 std::string("/phub/racks"),
                                 std::string("/phub/racks/"),
                                 std::string("/phub/racks/b"),
                                 std::string("/phub/racks/b/"),
                                 std::string("/phub/racks/b/host"),
                                 std::string("/phub/racks/b/host:0"),
                                 std::string("/phub/racks/b/host:07400"),
                                 std::string("/phub/racks/b/host:65536"),
                                 std::string("/phub/racks/b/0.0.0.0:7400"),
                                 std::string("/phub/racks/b/[::]:7400"),
                                 std::string("/phub/racks/b//host:7400"),
                                 std::string("/phub/racks//host:7400"),
                                 std::string("/phub/racks/-b/host:7400"),
                                 std::string("/phub/racks/b c/host:7400"),
                                 std::string("/phub/racks/b/ho\x1bst:7400"),
                                 std::string("/phub/racks/b/h\xc3\xb6st:7400"),
                                 std::string("/phub/racks/b/host:7400\n"),
                                 std::string("/phub/racksb/host:7400"),
                                 std::string("/phub/rack/b/host:7400"),
                                 "/phub/racks/" + long_rack + "/host:7400",
                                 "/phub/racks/b/" + long_host + ":7400"}) {
    INFO(key);
    CHECK(!parse_server_key("/phub/racks", key));
    CHECK(no_keys().put(key, 7) == Change::kLeftOut);
    CHECK(no_keys().remove(key) == Change::kLeftOut);
  }
}

TEST_CASE("servers come and go, racks with their last server, and the own one stays") {
  ServerKeys keys = no_keys();
  CHECK(keys.racks(kOwn) == std::vector<RackEntry>{{.name = "a", .servers = {kOwn.address}}});
  CHECK(keys.put("/phub/racks/b/10.0.0.3:7400", 7) == Change::kChanged);
  CHECK(keys.put("/phub/racks/b/10.0.0.2:7400", 7) == Change::kChanged);
  CHECK(keys.put("/phub/racks/b/10.0.0.2:7400", 7) == Change::kNone);
  CHECK(keys.put("/phub/racks/a/10.0.0.1:7400", 7) == Change::kChanged);
  CHECK(keys.size() == 3);
  const std::vector<RackEntry> both = {
      {.name = "a", .servers = {kOwn.address}},
      {.name = "b", .servers = {"10.0.0.2:7400", "10.0.0.3:7400"}}};
  CHECK(keys.racks(kOwn) == both);
  CHECK(keys.remove("/phub/racks/a/10.0.0.1:7400") == Change::kChanged);
  CHECK(keys.racks(kOwn) == both);
  CHECK(keys.remove("/phub/racks/b/10.0.0.2:7400") == Change::kChanged);
  CHECK(keys.remove("/phub/racks/b/10.0.0.2:7400") == Change::kLeftOut);
  CHECK(keys.remove("/phub/racks/b/10.0.0.3:7400") == Change::kChanged);
  CHECK(keys.size() == 0);
  CHECK(keys.racks(kOwn) == std::vector<RackEntry>{{.name = "a", .servers = {kOwn.address}}});
}

TEST_CASE("servers of a rack are in the order of the numbers in their addresses") {
  const std::vector<std::string> ordered = {
      "10.0.0.2:7400",   "10.0.0.9:900",    "10.0.0.9:7400", "10.0.0.10:7400",
      "[fd00::9]:7400",  "[fd00::10]:7400", "s.example:1",   "s01.example:7400",
      "s1.example:7400", "s2.example:7400", "s10.example:1"};
  const AddressOrder before;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    for (std::size_t j = 0; j < ordered.size(); ++j) {
      INFO(ordered[i] << " " << ordered[j]);
      CHECK(before(ordered[i], ordered[j]) == (i < j));
    }
  }
}

TEST_CASE("more servers or racks than there may be are left out") {
  ServerKeys keys = no_keys();
  for (int i = 0; i < 4; ++i) {
    CHECK(keys.put(fmt::format("/phub/racks/r{}/h{}:1", i, i), 7) == Change::kChanged);
  }
  CHECK(keys.put("/phub/racks/r4/h4:1", 7) == Change::kLeftOut);
  CHECK(keys.put("/phub/racks/r4/h3:1", 8) == Change::kLeftOut);
  for (int i = 2; i < 6; ++i) {
    CHECK(keys.put(fmt::format("/phub/racks/r0/h:{}", i), 7) == Change::kChanged);
  }
  CHECK(keys.put("/phub/racks/r0/h:6", 7) == Change::kLeftOut);
  CHECK(keys.size() == 8);
  CHECK(keys.remove("/phub/racks/r3/h3:1") == Change::kChanged);
  CHECK(keys.put("/phub/racks/r4/h4:1", 7) == Change::kChanged);
  CHECK(keys.size() == 8);
}

TEST_CASE("a server that moves is in its new rack only, in whatever order its keys are read") {
  ServerKeys keys = no_keys();
  const std::string former = "/phub/racks/z/10.0.0.2:7400";
  const std::string latter = "/phub/racks/b/10.0.0.2:7400";
  const std::vector<RackEntry> expected = {{.name = "a", .servers = {kOwn.address}},
                                           {.name = "b", .servers = {"10.0.0.2:7400"}}};
  CHECK(keys.put(former, 7) == Change::kChanged);
  CHECK(keys.put(latter, 8) == Change::kChanged);
  CHECK(keys.racks(kOwn) == expected);
  CHECK(keys.put(former, 7) == Change::kLeftOut);
  CHECK(keys.remove(former) == Change::kLeftOut);
  CHECK(keys.racks(kOwn) == expected);
  CHECK(keys.size() == 1);
  // Of itself a server knows best.
  CHECK(keys.put("/phub/racks/z/10.0.0.1:7400", 9) == Change::kChanged);
  CHECK(keys.racks(kOwn) == expected);
}

}  // namespace
}  // namespace phub::server
