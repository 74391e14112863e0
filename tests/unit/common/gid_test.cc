// Which GID of an invented table is chosen, towards whom, and what is said about it.
#include "common/transport/verbs/device/gid.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/transports/gid_tables.h"

namespace phub::transport::verbs {
namespace {

using Catch::Contains;

constexpr GidType kV1 = GidType::kRoceV1;
constexpr GidType kV2 = GidType::kRoceV2;
constexpr GidType kIb = GidType::kInfiniBand;

std::uint32_t chosen(const Port& port, const std::optional<Gid>& peer = std::nullopt,
                     std::optional<std::uint32_t> forced_index = std::nullopt) {
  const auto choice = choose_gid(port, peer, forced_index);
  REQUIRE(choice);
  return choice->index;
}

std::string reason(const std::vector<RatedGid>& rated, std::uint32_t index) {
  for (const RatedGid& entry : rated) {
    if (entry.gid.index == index) return entry.reason;
  }
  return "not in the table";
}

std::string gid_refusal(const Port& port, const std::optional<Gid>& peer,
                        std::optional<std::uint32_t> forced_index, Code code) {
  const auto choice = choose_gid(port, peer, forced_index);
  REQUIRE(!choice);
  CHECK(choice.error().code() == code);
  return choice.error().message();
}

}  // namespace

TEST_CASE("of a usual table the routable RoCE v2 entry is taken") {
  CHECK(chosen(ethernet_port(usual_table())) == 3);
  CHECK(chosen(ethernet_port(usual_table()), gid(9, kV2, "::ffff:10.0.0.6")) == 3);
}

TEST_CASE("each entry says why it is the one, or why not") {
  const auto rated = rate_gids(ethernet_port(usual_table()), std::nullopt, std::nullopt);
  REQUIRE(rated.size() == 4);
  CHECK(reason(rated, 0) == "RoCE v2 comes first");
  CHECK(reason(rated, 1) == "link-local, and there is a routable one");
  CHECK(reason(rated, 2) == "RoCE v2 comes first");
  CHECK(reason(rated, 3) == "chosen: RoCE v2, routable IPv4");
  CHECK(explain_gids({rated[0], rated[3]}) ==
        "0: RoCE v1 fe80::5054:ff:fe12:3456 (eth0): RoCE v2 comes first\n"
        "3: RoCE v2 ::ffff:10.0.0.5 (eth0): chosen: RoCE v2, routable IPv4\n");
  CHECK(explain_gids({}).empty());
}

TEST_CASE("exactly the chosen entry is marked") {
  for (const RatedGid& entry :
       rate_gids(ethernet_port(usual_table()), std::nullopt, std::nullopt)) {
    CHECK(entry.chosen == (entry.gid.index == 3));
  }
}

TEST_CASE("the order of the table does not matter, the index does") {
  const Port port = ethernet_port({gid(5, kV2, "::ffff:10.0.0.6"), gid(3, kV2, "::ffff:10.0.0.5")});
  CHECK(chosen(port) == 3);
  CHECK(reason(rate_gids(port, std::nullopt, std::nullopt), 5) == "as good as 3, which is lower");
}

TEST_CASE("RoCE v1 is taken when there is no v2") {
  const Port port = ethernet_port({gid(0, kV1, "fe80::1"), gid(1, kV1, "::ffff:10.0.0.5")});
  CHECK(chosen(port) == 1);
}

TEST_CASE("a link-local RoCE v2 entry comes before RoCE v1, which no router forwards") {
  CHECK(chosen(ethernet_port({gid(0, kV1, "::ffff:10.0.0.5"), gid(1, kV2, "fe80::1")})) == 1);
}

TEST_CASE("a link-local entry is taken only when nothing else can be") {
  const Gid local = gid(0, kV2, "fe80::1");
  CHECK(chosen(ethernet_port({local})) == 0);
  CHECK(chosen(ethernet_port({local, gid(1, kV2, "2001:db8::1")})) == 1);
  CHECK(chosen(ethernet_port({local, gid(1, kV2, "fd00::1")})) == 1);
  CHECK(chosen(ethernet_port({gid(0, kV2, "::ffff:169.254.1.2"), gid(1, kV2, "2001:db8::1")})) ==
        1);
}

TEST_CASE("all of fe80::/10 and 169.254/16 is link-local, their neighbours are not") {
  for (const char* address : {"fe80::1", "febf::1", "::ffff:169.254.0.1"}) {
    CHECK(is_link_local(gid(0, kV2, address)));
  }
  for (const char* address : {"fec0::1", "fe7f::1", "fd00::1", "::ffff:169.253.0.1",
                              "::ffff:10.0.0.1", "::169.254.0.1"}) {
    CHECK_FALSE(is_link_local(gid(0, kV2, address)));
  }
}

TEST_CASE("only ::ffff:a.b.c.d is IPv4") {
  CHECK(is_ipv4(gid(0, kV2, "::ffff:10.0.0.1")));
  CHECK_FALSE(is_ipv4(gid(0, kV2, "::10.0.0.1")));
  CHECK_FALSE(is_ipv4(gid(0, kV2, "1::ffff:10.0.0.1")));
  CHECK_FALSE(is_ipv4(gid(0, kV2, "2001:db8::1")));
}

TEST_CASE("with no peer known IPv4 comes before IPv6, whatever the indexes") {
  const Port port = ethernet_port({gid(2, kV2, "2001:db8::5"), gid(4, kV2, "::ffff:10.0.0.5")});
  CHECK(chosen(port) == 4);
  CHECK_THAT(reason(rate_gids(port, std::nullopt, std::nullopt), 2), Contains("IPv4 comes first"));
}

TEST_CASE("the entry has the peer's address family") {
  const Port port = ethernet_port(
      {gid(0, kV2, "fe80::1"), gid(2, kV2, "2001:db8::5"), gid(4, kV2, "::ffff:10.0.0.5")});
  const Gid peer6 = gid(1, kV2, "2001:db8:1::9");
  CHECK(chosen(port, peer6) == 2);
  CHECK(reason(rate_gids(port, peer6, std::nullopt), 4) == "IPv4, the peer has IPv6");
  const Gid peer4 = gid(1, kV2, "::ffff:10.9.0.1");
  CHECK(chosen(port, peer4) == 4);
  CHECK(reason(rate_gids(port, peer4, std::nullopt), 0) == "IPv6, the peer has IPv4");
}

TEST_CASE("the entry has the peer's RoCE version") {
  CHECK(chosen(ethernet_port(usual_table()), gid(0, kV1, "::ffff:10.0.0.6")) == 2);
  const auto rated =
      rate_gids(ethernet_port(usual_table()), gid(0, kV1, "::ffff:10.0.0.6"), std::nullopt);
  CHECK(reason(rated, 3) == "the peer has RoCE v1");
}

TEST_CASE("towards a link-local peer the link-local entry is taken") {
  const Port port = ethernet_port({gid(0, kV2, "2001:db8::5"), gid(1, kV2, "fe80::1")});
  const Gid peer = gid(0, kV2, "fe80::2");
  CHECK(chosen(port, peer) == 1);
  CHECK_THAT(reason(rate_gids(port, peer, std::nullopt), 0), Contains("no way back"));
}

TEST_CASE("a link-local entry still reaches for a routable peer when it is all there is") {
  CHECK(chosen(ethernet_port({gid(1, kV2, "fe80::1")}), gid(0, kV2, "2001:db8::2")) == 1);
}

TEST_CASE("of several addresses the one nearest to the peer's is taken") {
  const Port port = ethernet_port({gid(1, kV2, "::ffff:192.168.7.5"),
                                   gid(2, kV2, "::ffff:10.0.1.5"), gid(3, kV2, "::ffff:10.0.2.5")});
  CHECK(chosen(port, gid(0, kV2, "::ffff:10.0.2.77")) == 3);
  CHECK(chosen(port, gid(0, kV2, "::ffff:10.0.1.77")) == 2);
  CHECK(chosen(port, gid(0, kV2, "::ffff:192.168.9.1")) == 1);
  const Gid peer = gid(0, kV2, "::ffff:10.0.2.5");  // the same address: all bits in common
  CHECK(chosen(port, peer) == 3);
  CHECK_THAT(reason(rate_gids(port, peer, std::nullopt), 2), Contains("leading bits"));
}

TEST_CASE("on InfiniBand the first entry is taken, though its prefix looks link-local") {
  const Port port =
      infiniband_port({gid(0, kIb, "fe80::2:c903:1", ""), gid(1, kIb, "fec0::2:c903:1", "")});
  CHECK(chosen(port) == 0);
  CHECK(chosen(port, gid(0, kIb, "fe80::2:c903:2", "")) == 0);
  CHECK(chosen(port, gid(0, kIb, "fec0::2:c903:2", "")) == 1);
  CHECK(reason(rate_gids(port, std::nullopt, std::nullopt), 0) == "chosen: the port's first");
}

TEST_CASE("entries of another link layer and empty ones are not used") {
  const Port port =
      ethernet_port({gid(0, kIb, "2001:db8::1"), gid(1, kV2, "::"), gid(2, kV1, "fe80::1")});
  CHECK(chosen(port) == 2);
  const auto rated = rate_gids(port, std::nullopt, std::nullopt);
  CHECK(reason(rated, 0) == "not for a port on Ethernet");
  CHECK(reason(rated, 1) == "empty");
  CHECK(chosen(infiniband_port({gid(0, kV2, "::ffff:10.0.0.1"), gid(1, kIb, "fe80::1")})) == 1);
}

TEST_CASE("a forced index overrides every criterion") {
  const Port port = ethernet_port(usual_table());
  for (const std::uint32_t index : {0U, 1U, 2U, 3U}) {
    CHECK(chosen(port, std::nullopt, index) == index);
    CHECK(chosen(port, gid(0, kV2, "2001:db8::2"), index) == index);
  }
  const auto rated = rate_gids(port, std::nullopt, 0);
  CHECK(reason(rated, 0) == "chosen: verbs_gid_index");
  CHECK(reason(rated, 3) == "not verbs_gid_index");
}

TEST_CASE("a forced index that is not in the table is refused with the field and the table") {
  const std::string message =
      gid_refusal(ethernet_port(usual_table()), std::nullopt, 7, Code::kInvalidArgument);
  CHECK_THAT(message, Contains("verbs_gid_index: port 1 has no GID with index 7"));
  for (const char* part : {"0: RoCE v1 fe80::5054:ff:fe12:3456", "3: RoCE v2 ::ffff:10.0.0.5",
                           "chosen: RoCE v2, routable IPv4"}) {
    CHECK_THAT(message, Contains(part));
  }
  CHECK(message.find('\n') == std::string::npos);
  CHECK_THAT(gid_refusal(ethernet_port({}), std::nullopt, 0, Code::kInvalidArgument),
             Contains("the table is empty"));
  CHECK_THAT(
      gid_refusal(ethernet_port({gid(0, kV2, "::")}), std::nullopt, 0, Code::kInvalidArgument),
      Contains("0: RoCE v2 ::"));
}

TEST_CASE("a table without an entry for the peer is refused with each reason and the cure") {
  const Port port = ethernet_port({gid(0, kV1, "fe80::1"), gid(3, kV2, "::ffff:10.0.0.5")});
  const std::string message =
      gid_refusal(port, gid(1, kV2, "2001:db8::2"), std::nullopt, Code::kNotFound);
  for (const char* part :
       {"port 1", "towards the peer's RoCE v2 2001:db8::2", "fe80::1 (eth0): the peer has RoCE v2",
        "10.0.0.5 (eth0): IPv4, the peer has IPv6", "IPv6 address", "ip address add", "dev eth0"}) {
    CHECK_THAT(message, Contains(part));
  }
}

TEST_CASE("an empty table is refused with the cure of its link layer") {
  CHECK_THAT(gid_refusal(ethernet_port({}), std::nullopt, std::nullopt, Code::kNotFound),
             Contains("table is empty") && Contains("ip address add"));
  CHECK_THAT(gid_refusal(infiniband_port({}), std::nullopt, std::nullopt, Code::kNotFound),
             Contains("subnet manager"));
}

TEST_CASE("InfiniBand against Ethernet is refused as what it is") {
  for (const auto& [port, peer] :
       {std::pair(ethernet_port(usual_table()), gid(0, kIb, "fe80::9")),
        std::pair(infiniband_port({gid(0, kIb, "fe80::1")}), gid(3, kV2, "::ffff:10.0.0.6"))}) {
    CHECK_THAT(gid_refusal(port, peer, std::nullopt, Code::kNotFound),
               Contains("one end is on InfiniBand and the other on Ethernet") &&
                   Contains("verbs_devices"));
  }
}

}  // namespace phub::transport::verbs
