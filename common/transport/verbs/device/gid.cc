#include "common/transport/verbs/device/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace phub::transport::verbs {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4Mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// What the criteria of gid.h give an entry, in their order; more is better.
constexpr std::size_t kCriteria = 4;
using Merits = std::array<int, kCriteria>;

const char* family_of(const Gid& gid) { return is_ipv4(gid) ? "IPv4" : "IPv6"; }

bool is_empty(const Gid& gid) {
  return std::all_of(gid.bytes.begin(), gid.bytes.end(), [](std::uint8_t b) { return b == 0; });
}

int common_bits(const Gid& a, const Gid& b) {
  int bits = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    unsigned difference = static_cast<unsigned>(a.bytes[i]) ^ b.bytes[i];
    bits += 8;
    for (; difference != 0; difference >>= 1U) --bits;
    if (a.bytes[i] != b.bytes[i]) break;
  }
  return bits;
}

// Why the entry cannot be used at all; empty: it can.
std::string obstacle(const Gid& gid, const Port& port, const std::optional<Gid>& peer) {
  if (is_empty(gid)) return "empty";
  const bool is_infiniband = port.link_layer == LinkLayer::kInfiniBand;
  if ((gid.type == GidType::kInfiniBand) != is_infiniband) {
    return std::string("not for a port on ") + name_of(port.link_layer);
  }
  if (!peer) return {};
  if (gid.type != peer->type) return std::string("the peer has ") + name_of(peer->type);
  if (!is_infiniband && is_ipv4(gid) != is_ipv4(*peer)) {
    return std::string(family_of(gid)) + ", the peer has " + family_of(*peer);
  }
  return {};
}

Merits merits_of(const Gid& gid, const std::optional<Gid>& peer) {
  const bool is_roce = gid.type != GidType::kInfiniBand;
  const bool wants_link_local = peer && is_link_local(*peer);
  return {gid.type == GidType::kRoceV2 ? 1 : 0,
          is_roce && is_link_local(gid) != wants_link_local ? 0 : 1,
          is_roce && !peer && is_ipv4(gid) ? 1 : 0, peer ? common_bits(gid, *peer) : 0};
}

bool is_better(const Gid& gid, const Gid& other, const std::optional<Gid>& peer) {
  const Merits own = merits_of(gid, peer);
  const Merits others = merits_of(other, peer);
  return own != others ? own > others : gid.index < other.index;
}

// Why an entry comes after the best one.
std::string shortcoming(const Gid& gid, const Gid& best, const std::optional<Gid>& peer) {
  const Merits own = merits_of(gid, peer);
  const Merits other = merits_of(best, peer);
  const std::array<std::string, kCriteria> texts = {
      "RoCE v2 comes first",
      is_link_local(gid) ? "link-local, and there is a routable one"
                         : "the peer's is link-local and has no way back to this one",
      "IPv4 comes first while no peer is known",
      "another has more leading bits in common with the peer's"};
  for (std::size_t i = 0; i < kCriteria; ++i) {
    if (own[i] != other[i]) return texts[i];
  }
  return "as good as " + std::to_string(best.index) + ", which is lower";
}

std::string praise(const Gid& gid, const std::optional<Gid>& peer) {
  if (gid.type == GidType::kInfiniBand) {
    return peer ? "chosen: nearest to the peer's subnet prefix" : "chosen: the port's first";
  }
  const std::string scope = is_link_local(gid) ? "link-local " : "routable ";
  return std::string("chosen: ") + name_of(gid.type) + ", " + scope + family_of(gid) +
         (peer ? ", nearest to the peer's" : "");
}

// The table in one line, for errors.
std::string one_line(const std::vector<RatedGid>& rated) {
  std::string text = explain_gids(rated);
  if (text.empty()) return "the table is empty";
  text.pop_back();
  for (std::size_t end = 0; (end = text.find('\n', end)) != std::string::npos;) {
    text.replace(end, 1, "; ");
  }
  return text;
}

std::string cure_for(const Port& port, const std::optional<Gid>& peer) {
  if (peer && (peer->type == GidType::kInfiniBand) != (port.link_layer == LinkLayer::kInfiniBand)) {
    return "one end is on InfiniBand and the other on Ethernet; name the right device with "
           "verbs_devices";
  }
  if (port.link_layer == LinkLayer::kInfiniBand) return "is a subnet manager running (opensm)?";
  const std::string family = peer ? std::string(family_of(*peer)) + " " : "";
  const std::string netdev = port.netdev.empty() ? "INTERFACE" : port.netdev;
  return "give the interface an " + family + "address: ip address add ADDRESS/PREFIX dev " + netdev;
}

}  // namespace

bool is_ipv4(const Gid& gid) {
  return std::equal(kIpv4Mapped.begin(), kIpv4Mapped.end(), gid.bytes.begin());
}

bool is_link_local(const Gid& gid) {
  if (is_ipv4(gid)) return gid.bytes[12] == 169 && gid.bytes[13] == 254;
  return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0U) == 0x80;
}

std::string address_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  return text.data();
}

std::string to_string(const Gid& gid) {
  return std::string(name_of(gid.type)) + " " + address_text(gid);
}

std::vector<RatedGid> rate_gids(const Port& local, const std::optional<Gid>& peer,
                                std::optional<std::uint32_t> forced_index) {
  std::vector<RatedGid> rated;
  for (const Gid& gid : local.gids) {
    const bool is_forced = gid.index == forced_index && !is_empty(gid);
    const char* const word = is_forced ? "chosen: verbs_gid_index" : "not verbs_gid_index";
    rated.push_back({gid, is_forced, forced_index ? word : obstacle(gid, local, peer)});
  }
  if (forced_index) return rated;
  RatedGid* best = nullptr;
  for (RatedGid& entry : rated) {
    if (!entry.reason.empty()) continue;
    if (best == nullptr || is_better(entry.gid, best->gid, peer)) best = &entry;
  }
  if (best == nullptr) return rated;
  for (RatedGid& entry : rated) {
    if (entry.reason.empty()) entry.reason = shortcoming(entry.gid, best->gid, peer);
  }
  best->chosen = true;
  best->reason = praise(best->gid, peer);
  return rated;
}

Result<Gid> choose_gid(const Port& local, const std::optional<Gid>& peer,
                       std::optional<std::uint32_t> forced_index) {
  const std::vector<RatedGid> rated = rate_gids(local, peer, forced_index);
  for (const RatedGid& entry : rated) {
    if (entry.chosen) return entry.gid;
  }
  const std::string port = "port " + std::to_string(local.number);
  if (forced_index) {
    return Status(Code::kInvalidArgument, "verbs_gid_index: " + port + " has no GID with index " +
                                              std::to_string(*forced_index) +
                                              "; leave the field out or take one of: " +
                                              one_line(rate_gids(local, peer, std::nullopt)));
  }
  const std::string towards = peer ? " towards the peer's " + to_string(*peer) : "";
  return Status(Code::kNotFound, port + " has no GID that can be used" + towards + " (" +
                                     one_line(rated) + "); " + cure_for(local, peer));
}

std::string explain_gids(const std::vector<RatedGid>& rated) {
  std::string text;
  for (const RatedGid& entry : rated) {
    const std::string netdev = entry.gid.netdev.empty() ? "" : " (" + entry.gid.netdev + ")";
    text += std::to_string(entry.gid.index) + ": " + to_string(entry.gid) + netdev + ": " +
            entry.reason + "\n";
  }
  return text;
}

}  // namespace phub::transport::verbs
