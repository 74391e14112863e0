#include "common/transport/verbs/departures.h"

#include <algorithm>

namespace phub::transport::verbs {
namespace {

// Writes complete in order, so a signaled one of no bytes behind them tells when they are out.
bool post_fence(const VerbsConnection& connection, const Departures::Sends& sends) {
  ibv_send_wr fence = {};
  fence.wr_id = request_id(sends.tag, sends.posted);
  fence.opcode = IBV_WR_RDMA_WRITE;
  fence.send_flags = IBV_SEND_SIGNALED;
  fence.wr.rdma.remote_addr = connection.peer.window_address;
  fence.wr.rdma.rkey = connection.peer.window_key;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(connection.pair.get(), &fence, &bad) == 0;
}

}  // namespace

Departures::Departures(std::size_t max_peers) {
  leaving_.reserve(max_peers);
  ended_.reserve(max_peers);
}

void Departures::begin(VerbsConnection connection, const Sends& sends, Clock::time_point now) {
  const bool waits = sends.posted != sends.retired && leaving_.size() < leaving_.capacity() &&
                     post_fence(connection, sends);
  if (!waits) return end(std::move(connection));
  leaving_.push_back({std::move(connection), sends, now + kLongest});
}

// The stream's end tells the peer at once. Beyond the room the connection is destroyed here.
void Departures::end(VerbsConnection connection) {
  connection.socket.reset();
  if (ended_.size() < ended_.capacity()) ended_.push_back(std::move(connection));
}

Departures::Leaving* Departures::find(RequestTag tag) {
  const auto found = std::find_if(leaving_.begin(), leaving_.end(),
                                  [&](const Leaving& leaving) { return leaving.sends.tag == tag; });
  return found == leaving_.end() ? nullptr : &*found;
}

void Departures::on_sent(RequestTag tag, std::uint32_t upto) {
  if (Leaving* leaving = find(tag)) leaving->sends.retired = upto;
}

void Departures::on_broken(RequestTag tag) {
  if (Leaving* leaving = find(tag)) leaving->sends.retired = leaving->sends.posted;
}

void Departures::look(Clock::time_point now) {
  for (std::size_t i = leaving_.size(); i-- > 0;) {
    Leaving& leaving = leaving_[i];
    if (leaving.sends.retired != leaving.sends.posted && now < leaving.deadline) continue;
    end(std::move(leaving.connection));
    if (i + 1 < leaving_.size()) leaving = std::move(leaving_.back());
    leaving_.pop_back();
  }
}

}  // namespace phub::transport::verbs
