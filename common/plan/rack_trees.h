// How the racks of a job are joined: trees over racks, of which each chunk goes through one.
//
// A rack's name may say where it is: "site1/row2/rack3" is in the groups "site1" and "site1/row2".
//
// A rack's servers add up what their own workers and the racks below them push, push the sum to the
// rack above, and hand the reply down. The rack at the root makes the update. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
  // A tree for each rack, in which all sums of a group (a row, a site) leave it as one: a head that
  // differs from tree to tree takes those of its group, and pushes to the head of the group around
  // it. Of racks without groups as kSpread.
  kNested,
};
std::string_view name_of(RackShape shape);
std::optional<RackShape> rack_shape_of(std::string_view name);

struct RackTree {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> parent;  // by rack; kNone: the root

  bool is_below(std::uint32_t rack, std::uint32_t above) const { return parent[rack] == above; }
  bool operator==(const RackTree&) const = default;
};

// Racks whose names have the same levels in front.
struct RackGroup {
  std::string name;                  // "site1", "site1/row2"
  std::vector<std::uint32_t> racks;  // ascending
};
// Each after those around it, of one level by name; a rack alone is no group.
std::vector<RackGroup> rack_groups(const std::vector<std::string>& names);
// Why racks of these names cannot be nested: they have not all as many levels. Empty: they can.
std::string nesting_fault(const std::vector<std::string>& names);

// Of one rack or none: nothing. Trees have equal shares of a job's bytes, with kHybrid those of
// small keys and those of large ones each of theirs.
std::vector<RackTree> make_rack_trees(const std::vector<std::string>& names, RackShape shape);
// Of racks without groups.
std::vector<RackTree> make_rack_trees(std::uint32_t racks, RackShape shape);
// How many of them, the first ones, are for small keys only; the others are then for large ones. 0:
// all are for all.
std::uint32_t small_key_trees(std::uint32_t racks, RackShape shape);

}  // namespace phub
