#include "worker/train/session_spread.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/data/spread/memory_share.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::train {
namespace {

// The workers of this one's rack: those before it, and how many they are.
std::pair<std::uint32_t, std::uint32_t> own_rack(const ExchangeFacts& facts) {
  std::uint32_t first = 0;
  for (const RackSpec& rack : facts.racks) {
    if (facts.worker_index < first + rack.workers) return {first, rack.workers};
    first += rack.workers;
  }
  return {0, facts.workers};
}

// A worker without data.spread would be asked for samples that it does not hold.
Status check_all_there(const ExchangeFacts& facts) {
  const auto [first, workers] = own_rack(facts);
  for (std::uint32_t worker = first; worker < first + workers; ++worker) {
    const auto is_it = [&](const client::PeerPlace& place) { return place.worker == worker; };
    if (std::ranges::any_of(facts.peers.peers, is_it)) continue;
    return {Code::kInvalidArgument, "data.spread: worker " + std::to_string(worker) +
                                        " has none, and this one has: give all workers of the job "
                                        "the same data.spread"};
  }
  return {};
}

}  // namespace

Status begin_spread(const SessionOptions& options, data::SpreadSet& set,
                    const ExchangeFacts& facts) {
  const data::ConnectPeers& connect = options.data.spread.connect;
  if (!connect) return set.begin({}, {});
  PHUB_RETURN_IF_ERROR(check_all_there(facts));
  const client::PeerGroup& group = facts.peers;
  const auto readers = std::clamp(options.data.feed.threads, 1U, data::kRequestsMax);
  const auto make = [&](data::Holder& holder, std::uint32_t largest_bytes) {
    return connect({.group = group,
                    .holder = holder,
                    .readers = readers,
                    .largest_bytes = largest_bytes,
                    .note = set.note()});
  };
  return set.begin({.self = group.own,
                    .members = static_cast<std::uint32_t>(group.peers.size()),
                    .link_bytes = data::link_bytes(readers, group.encrypts)},
                   make);
}

void SpreadReport::look(bool is_last) {
  if (set_ == nullptr) return;
  if (is_last) set_->be_quiet();
  const auto over = deliveries_.take_over();
  if (over && metrics_ != nullptr) metrics_->samples(*over, set_->counts());
}

void SpreadReport::finish() {
  if (set_ == nullptr) return;
  const auto rest = deliveries_.rest();
  if (rest && metrics_ != nullptr) metrics_->samples(*rest, set_->counts());
}

}  // namespace phub::train
