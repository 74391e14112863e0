// Which entry of a port's GID table a connection uses. A wrong one is the usual reason why RoCE
// does not connect, so every choice comes with its reasons.
//
// An entry can be used if it is of the port's link layer and not empty; towards a peer that is
// known it must be of the peer's type and, on Ethernet, of its address family (the kernel refuses a
// path between two). Of those the best is, criterion by criterion:
//   1. RoCE v2 before v1. (Neither version reaches the other; v1 does not cross routers, whatever
//      its addresses, so a link-local v2 comes before a v1.)
//   2. On Ethernet, not link-local (fe80::/10, 169.254/16), unless the peer's is: such a peer has
//      no way back to another address. InfiniBand's usual subnet prefix is fe80::, which is fine.
//   3. On Ethernet with no peer known, IPv4 before IPv6: both ends choose alike.
//   4. The most leading bits in common with the peer's: the same subnet, if there is one.
//   5. The lowest index.
//
// Pure functions of values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/transport/verbs/device/device.h"

namespace phub::transport::verbs {

// An entry with the reason why it is, or is not, the one.
struct RatedGid {
  Gid gid;
  bool chosen = false;
  std::string reason;
};

// Every entry of the port's table, in its order; at most one is chosen. `forced_index`
// (configuration: verbs_gid_index) overrides all criteria.
std::vector<RatedGid> rate_gids(const Port& local, const std::optional<Gid>& peer,
                                std::optional<std::uint32_t> forced_index);

// The chosen one. Errors, each with the table, the reasons and the cure: kInvalidArgument when
// `forced_index` is not in the table, kNotFound when no entry can be used.
Result<Gid> choose_gid(const Port& local, const std::optional<Gid>& peer,
                       std::optional<std::uint32_t> forced_index);

// One line for each entry: "3: RoCE v2 ::ffff:10.0.0.5 (eth0): chosen: ...".
std::string explain_gids(const std::vector<RatedGid>& rated);

// "::ffff:10.0.0.5", "fe80::1".
std::string address_text(const Gid& gid);
// "RoCE v2 ::ffff:10.0.0.5".
std::string to_string(const Gid& gid);

bool is_ipv4(const Gid& gid);
bool is_link_local(const Gid& gid);

}  // namespace phub::transport::verbs
