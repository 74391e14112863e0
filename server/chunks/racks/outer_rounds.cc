#include "server/chunks/racks/outer_rounds.h"

#include <algorithm>

namespace phub::server {
namespace {

constexpr std::uint32_t kMissedMost = 255;

}  // namespace

bool OuterRounds::has_quorum(std::uint32_t slot) const {
  const std::uint32_t least = std::max(1U, std::min(policy_.quorum, present_));
  return size(slot) >= least;
}

bool OuterRounds::is_whole(std::uint32_t slot) const {
  if (!has_quorum(slot)) return false;
  for (std::size_t i = 0; i < arrived_.words(); ++i) {
    if ((awaited_.word(slot, i) & ~arrived_.word(slot, i)) != 0) return false;
  }
  return true;
}

std::uint32_t OuterRounds::taking_part(std::uint32_t slot) const {
  const std::uint8_t* const missed = missed_.data() + slot * std::size_t{racks_};
  std::uint32_t count = 0;
  for (std::uint32_t rack = 0; rack < racks_; ++rack) {
    const bool was_in = missed[rack] + 1U < std::min(racks_, kMissedMost) && !is_lost(rack);
    if (arrived_.contains(slot, rack) || was_in) ++count;
  }
  return count;
}

void OuterRounds::end(std::uint32_t slot) {
  for (std::uint32_t rack = 0; rack < racks_; ++rack) {
    const bool is_in = arrived_.contains(slot, rack);
    std::uint8_t& missed = missed_[slot * std::size_t{racks_} + rack];
    if (missed < kMissedMost) ++missed;
    if (is_in) missed = 0;
    is_in ? static_cast<void>(replied_.insert(slot, rack)) : replied_.erase(slot, rack);
    if (!is_in) awaited_.erase(slot, rack);
  }
  arrived_.clear(slot);
  waits.remove(slot);
  outcome.is_together = true;
}

void OuterRounds::lose(std::uint32_t rack) {
  if (!lost_.insert(0, rack)) return;
  --present_;
  for (std::uint32_t slot = 0; slot < chunks_.size(); ++slot) awaited_.erase(slot, rack);
}

}  // namespace phub::server
