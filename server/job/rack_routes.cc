#include "server/job/rack_routes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/plan/place.h"

namespace phub::server {
namespace {

using Pairs =
    std::set<std::pair<std::uint32_t, std::uint32_t>>;  // a core, and one at the other end

// Pairs that have chunks in common. A core without chunks has a peer too, for a member is connected
// to all cores. The rule is the same from both ends.
void add_idle(std::uint32_t cores_here, std::uint32_t cores_there, Pairs& pairs) {
  std::vector<bool> here(cores_here);
  std::vector<bool> there(cores_there);
  for (const auto& [core, other] : pairs) here[core] = there[other] = true;
  for (std::uint32_t core = 0; core < cores_here; ++core) {
    if (!here[core]) pairs.emplace(core, core % cores_there);
  }
  for (std::uint32_t core = 0; core < cores_there; ++core) {
    if (!there[core]) pairs.emplace(core % cores_here, core);
  }
}

std::vector<CoreRoute> peers_of(const Pairs& pairs, std::uint32_t cores_here,
                                std::uint32_t cores_there) {
  std::vector<CoreRoute> routes(cores_here);
  std::vector<std::uint32_t> streams(cores_there);
  for (const auto& [core, other] : pairs) {
    routes[core].peers.push_back({.core = other, .stream = streams[other]++});
  }
  return routes;
}

}  // namespace

std::vector<CoreRoute> make_rack_routes(const JobLayout& layout, std::uint32_t rack,
                                        std::uint32_t cores_there) {
  const Plan& plan = *layout.plan;
  const auto& own = plan.core_chunks[layout.server_index];
  const auto cores_here = static_cast<std::uint32_t>(own.size());
  const std::vector<std::uint32_t> there =
      cores_of_chunks(plan, needs_whole_keys(layout.rule), layout.server_index, cores_there);
  Pairs pairs;
  std::size_t index = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server == layout.server_index) pairs.emplace(chunk.core, there[index++]);
  }
  add_idle(cores_here, cores_there, pairs);
  std::vector<CoreRoute> routes = peers_of(pairs, cores_here, cores_there);

  std::vector<std::uint32_t> slots(cores_there);
  std::vector<std::uint32_t> first(cores_there, cores_here);  // core whose sums go up to it
  index = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server != layout.server_index) continue;
    const std::uint32_t core = there[index++];
    CoreRoute& route = routes[chunk.core];
    const auto peer = std::ranges::find(route.peers, core, &CoreRoute::Peer::core);
    ++peer->chunks;
    route.peer_of.push_back(static_cast<std::uint32_t>(peer - route.peers.begin()));
    route.slot_there.push_back(slots[core]++);
    if (layout.rack.above(chunk.tree) != rack) continue;
    peer->takes_sums = true;
    first[core] = std::min(first[core], chunk.core);
  }
  for (std::uint32_t core = 0; core < cores_here; ++core) {
    for (CoreRoute::Peer& peer : routes[core].peers) peer.takes_votes = first[peer.core] == core;
  }
  return routes;
}

}  // namespace phub::server
