#include "server/job/rack_place.h"

namespace phub::server {

std::uint32_t RackPlace::position(std::uint32_t tree, std::uint32_t rack) const {
  std::uint32_t before = 0;
  for (std::uint32_t other = 0; other < rack; ++other) {
    if (other == own_ || is_below(tree, other)) ++before;
  }
  return before;
}

std::uint32_t RackPlace::leader(std::uint32_t tree) const {
  constexpr std::uint32_t kLeader = 0;
  if (own_ == kLeader) return own_;
  // Up from its rack, until the next one is this.
  for (std::uint32_t rack = kLeader; rack != RackTree::kNone; rack = trees_[tree].parent[rack]) {
    if (is_below(tree, rack)) return rack;
  }
  return RackTree::kNone;
}

bool RackPlace::passes_on(std::uint32_t from, std::uint32_t to) const {
  for (std::uint32_t tree = 0; tree < trees_.size(); ++tree) {
    if (above(tree) == to && leader(tree) == from) return true;
  }
  return false;
}

}  // namespace phub::server
