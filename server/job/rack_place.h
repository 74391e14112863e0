// Where this server's rack is among the racks of a job: whose pushes it adds up for each tree, and
// where its sums go (common/plan/rack_trees.h).
//
// A member of a job has a seat here: workers of this rack first, then the other racks, in their
// order. A value, immutable; any thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/plan/rack_trees.h"

namespace phub::server {

class RackPlace {
 public:
  RackPlace() = default;  // the job's only rack
  // REQUIRES: trees over so many racks.
  RackPlace(std::uint32_t racks, std::uint32_t own, std::vector<RackTree> trees)
      : racks_(racks), own_(own), trees_(std::move(trees)) {}

  bool is_alone() const { return trees_.empty(); }
  std::uint32_t racks() const { return racks_; }
  std::uint32_t own() const { return own_; }
  std::uint32_t trees() const { return static_cast<std::uint32_t>(trees_.size()); }

  // Of the rack's server in a job that has so many workers here.
  std::uint32_t seat_of(std::uint32_t rack, std::uint32_t workers) const {
    return workers + rack - (rack > own_ ? 1 : 0);
  }
  std::uint32_t rack_at(std::uint32_t seat, std::uint32_t workers) const {
    const std::uint32_t other = seat - workers;
    return other + (other >= own_ ? 1 : 0);
  }

  // These are of a tree. kNone: the root is here.
  std::uint32_t above(std::uint32_t tree) const { return trees_[tree].parent[own_]; }
  bool is_root(std::uint32_t tree) const { return above(tree) == RackTree::kNone; }
  bool is_below(std::uint32_t tree, std::uint32_t rack) const {
    return trees_[tree].parent[rack] == own_;
  }
  // Sums that are added here: this rack's and those of racks below.
  std::uint32_t members(std::uint32_t tree) const { return position(tree, racks_); }
  // Of a rack among them: they are added in the racks' order.
  std::uint32_t position(std::uint32_t tree, std::uint32_t rack) const;
  // The rack among them that brings worker 0's words: it, or one above it. kNone: it is elsewhere.
  std::uint32_t leader(std::uint32_t tree) const;
  // Whether worker 0's words go on from `from` (own(): a worker's here) to the rack `to`.
  bool passes_on(std::uint32_t from, std::uint32_t to) const;

 private:
  std::uint32_t racks_ = 1;
  std::uint32_t own_ = 0;
  std::vector<RackTree> trees_;
};

}  // namespace phub::server
