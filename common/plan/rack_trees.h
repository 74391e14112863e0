// How the racks of a job are joined: trees over racks, of which each chunk goes through one.
//
// A rack's servers add up what their own workers and the racks below them push, push the sum to the
// rack above, and hand the reply down. The rack at the root makes the update. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace phub {

inline constexpr std::uint32_t kMaxRacks = 256;  // of a job

enum class RackShape : std::uint8_t {
  kSpread,       // a tree for each rack, which all others push to: each crosses the core twice
  kChain,        // a tree for each rack, in which every rack pushes to the next one: as a ring
  kMulticolour,  // four trees with four children, whose inner racks differ
  kHybrid,  // small keys as in kSpread, large ones as in kChain: the trees of both, in this order
  kTree,    // one of kMulticolour's trees alone: to compare with, no planner takes it
};
std::string_view name_of(RackShape shape);
std::optional<RackShape> rack_shape_of(std::string_view name);

struct RackTree {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> parent;  // by rack; kNone: the root

  bool is_below(std::uint32_t rack, std::uint32_t above) const { return parent[rack] == above; }
  bool operator==(const RackTree&) const = default;
};

// Of one rack or none: nothing. Trees have equal shares of a job's bytes, with kHybrid those of
// small keys and those of large ones each of theirs.
std::vector<RackTree> make_rack_trees(std::uint32_t racks, RackShape shape);
// How many of them, the first ones, are for small keys only; the others are then for large ones. 0:
// all are for all.
std::uint32_t small_key_trees(std::uint32_t racks, RackShape shape);

}  // namespace phub
