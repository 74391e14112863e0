// Which cores of another rack's server have this server's chunks, where that one has another number
// of cores.
//
// Both servers have the same chunks (common/plan/place.h), on other cores and in other slots. A
// core is connected with each core there that has one of its chunks. At the other end these
// connections are the streams of one member. A message names the chunk by its slot at the receiver.
//
// Values, immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/job/layout.h"

namespace phub::server {

// The routes of one core to one other rack, and back.
struct CoreRoute {
  // A core there that this one is connected with.
  struct Peer {
    std::uint32_t core = 0;
    std::uint32_t stream = 0;  // this core's, among those that the peer is connected with
    std::uint32_t chunks = 0;  // that both have
    bool takes_sums = false;   // sums go up to it from here
    bool takes_votes = false;  // of the cores here whose sums go up to it, this is the first
  };
  std::vector<Peer> peers;                // in the order of cores; one at least
  std::vector<std::uint32_t> peer_of;     // by slot: where in `peers`
  std::vector<std::uint32_t> slot_there;  // by slot
};

// The routes of each core of layout.server_index to `rack`, whose server of this place has
// `cores_there` cores. REQUIRES: layout.rack has racks, and `rack` is another one.
std::vector<CoreRoute> make_rack_routes(const JobLayout& layout, std::uint32_t rack,
                                        std::uint32_t cores_there);

}  // namespace phub::server
