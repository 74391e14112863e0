#include "server/job/round_log.h"

#include <algorithm>

namespace phub::server {

std::vector<RoundRecord> RoundLog::last(std::size_t count) const {
  std::vector<RoundRecord> records;
  // The slot of the round that comes next may already be somebody's; another rack may have brought
  // sums of the one after it.
  const std::uint64_t next = begun_ + (racks_.empty() ? 0 : 1);
  const std::uint64_t oldest = next < kRounds ? 0 : next - kRounds;
  for (std::uint64_t round = complete_round_; round > oldest && records.size() < count;) {
    --round;
    const Head& head = heads_[round % kRounds];
    if (head.round != round || head.workers_replied_to < workers_.size()) continue;
    const auto first =
        spans_.begin() + static_cast<std::ptrdiff_t>(round % kRounds * workers_.size());
    const auto racks =
        rack_spans_.begin() + static_cast<std::ptrdiff_t>(round % kRounds * racks_.size());
    records.push_back({.round = round,
                       .first_push = head.first_push,
                       .complete = head.complete,
                       .replied = head.replied,
                       .work = head.work,
                       .workers = {first, first + static_cast<std::ptrdiff_t>(workers_.size())},
                       .racks = {racks, racks + static_cast<std::ptrdiff_t>(racks_.size())}});
  }
  std::reverse(records.begin(), records.end());
  return records;
}

}  // namespace phub::server
