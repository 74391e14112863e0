#include "common/rendezvous/peer_places.h"

#include <algorithm>

namespace phub::client {
namespace {

constexpr std::size_t kHostCharsMax = 256;

}  // namespace

Result<PeerGroup> read_peers(const control::StartReply& reply, const JoinInfo& joined,
                             const ServerCalls& server) {
  PeerGroup group{.job_id = joined.job_id, .epoch = joined.epoch, .encrypts = joined.encrypts_data};
  bool is_own_there = false;
  std::int64_t before = -1;
  for (const control::PeerPlace& place : reply.peers()) {
    const bool is_sound = place.port() > 0 && place.port() <= UINT16_MAX &&
                          place.worker_index() > before && place.host().size() < kHostCharsMax;
    if (!is_sound) {
      return Status(Code::kInternal, server.address() + " sent workers that make no sense");
    }
    before = place.worker_index();
    if (place.worker_index() == joined.worker_index) {
      group.own = static_cast<std::uint32_t>(group.peers.size());
      is_own_there = true;
    }
    // A worker on the server's host is reached as the server is.
    group.peers.push_back({place.worker_index(),
                           place.host().empty() ? server.host() : place.host(),
                           static_cast<std::uint16_t>(place.port())});
  }
  if (!is_own_there || reply.peer_key().size() != group.key.size()) {
    return Status(Code::kInternal, server.address() +
                                       " does not say which workers listen for each other: is it "
                                       "of an earlier version?");
  }
  std::copy(reply.peer_key().begin(), reply.peer_key().end(), group.key.begin());
  return group;
}

}  // namespace phub::client
