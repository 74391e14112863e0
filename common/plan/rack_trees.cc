#include "common/plan/rack_trees.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/words.h"

namespace phub {
namespace {

constexpr Words<RackShape, 6> kShapes = {
    {"spread", "chain", "multicolour", "hybrid", "tree", "nested"}};
// Branches of a tree, and trees.
constexpr std::uint32_t kColours = 4;

// Four-ary heaps over the racks, each turned so far that its inner racks are others: the first
// ceil((racks - 1) / 4) of a heap have children.
RackTree heap(std::uint32_t racks, std::uint32_t colour) {
  const std::uint32_t inner = (racks - 1 + kColours - 1) / kColours;
  const auto rack_at = [&](std::uint32_t place) { return (place + colour * inner) % racks; };
  RackTree tree{std::vector<std::uint32_t>(racks, RackTree::kNone)};
  for (std::uint32_t place = 1; place < racks; ++place) {
    tree.parent[rack_at(place)] = rack_at((place - 1) / kColours);
  }
  return tree;
}

RackTree star(std::uint32_t racks, std::uint32_t root) {
  RackTree tree{std::vector<std::uint32_t>(racks, root)};
  tree.parent[root] = RackTree::kNone;
  return tree;
}

RackTree path(std::uint32_t racks, std::uint32_t root) {
  RackTree tree{std::vector<std::uint32_t>(racks)};
  for (std::uint32_t rack = 0; rack < racks; ++rack) tree.parent[rack] = (rack + 1) % racks;
  tree.parent[root] = RackTree::kNone;
  return tree;
}

std::size_t levels_of(const std::string& name) {
  return 1 + static_cast<std::size_t>(std::count(name.begin(), name.end(), '/'));
}

// A group that a tree's root is not in has one of its racks as its head, each in turn, from tree to
// tree.
std::vector<RackTree> nest(std::uint32_t racks, const std::vector<RackGroup>& groups) {
  std::vector<RackTree> trees;
  std::vector<std::size_t> chosen(groups.size(), 0);
  for (std::uint32_t root = 0; root < racks; ++root) {
    RackTree tree = star(racks, root);
    std::vector<std::uint32_t> head(racks, root);  // of the smallest group so far that a rack is in
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::vector<std::uint32_t>& members = groups[i].racks;
      const std::uint32_t around = head[members.front()];
      if (std::binary_search(members.begin(), members.end(), around)) continue;
      const std::uint32_t own = members[chosen[i]++ % members.size()];
      tree.parent[own] = around;
      for (const std::uint32_t member : members) head[member] = own;
    }
    for (std::uint32_t rack = 0; rack < racks; ++rack) {
      if (head[rack] != rack) tree.parent[rack] = head[rack];
    }
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace

std::string_view name_of(RackShape shape) { return kShapes.of(shape); }
std::optional<RackShape> rack_shape_of(std::string_view name) { return kShapes.parse(name); }

std::vector<RackGroup> rack_groups(const std::vector<std::string>& names) {
  std::map<std::pair<std::size_t, std::string>, std::vector<std::uint32_t>> groups;  // by level
  for (std::uint32_t rack = 0; rack < names.size(); ++rack) {
    std::size_t level = 0;
    for (std::size_t end = names[rack].find('/'); end != std::string::npos;
         end = names[rack].find('/', end + 1)) {
      groups[{level++, names[rack].substr(0, end)}].push_back(rack);
    }
  }
  std::vector<RackGroup> all;
  all.reserve(groups.size());
  for (auto& [place, racks] : groups) all.push_back({place.second, std::move(racks)});
  return all;
}

std::string nesting_fault(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::size_t levels = levels_of(name);
    const std::size_t first = levels_of(names.front());
    if (levels == first) continue;
    return "with nested all racks' names have as many levels, as site1/row2/rack3; \"" +
           names.front() + "\" has " + std::to_string(first) + ", \"" + name + "\" has " +
           std::to_string(levels) + ": rename one, or take another shape";
  }
  return "";
}

std::vector<RackTree> make_rack_trees(const std::vector<std::string>& names, RackShape shape) {
  const auto racks = static_cast<std::uint32_t>(names.size());
  if (shape != RackShape::kNested || racks < 2) return make_rack_trees(racks, shape);
  return nest(racks, rack_groups(names));
}

std::vector<RackTree> make_rack_trees(std::uint32_t racks, RackShape shape) {
  std::vector<RackTree> trees;
  if (racks < 2) return trees;
  if (shape == RackShape::kHybrid) {
    trees = make_rack_trees(racks, RackShape::kSpread);
    const std::vector<RackTree> large = make_rack_trees(racks, RackShape::kChain);
    trees.insert(trees.end(), large.begin(), large.end());
    return trees;
  }
  std::uint32_t count = racks;
  if (shape == RackShape::kMulticolour) count = std::min(kColours, racks);
  if (shape == RackShape::kTree) count = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    switch (shape) {
      case RackShape::kSpread:
      case RackShape::kNested:
        trees.push_back(star(racks, i));
        break;
      case RackShape::kChain:
        trees.push_back(path(racks, i));
        break;
      case RackShape::kMulticolour:
      case RackShape::kTree:
        trees.push_back(heap(racks, i));
        break;
      case RackShape::kHybrid:  // made of the others, above
        break;
    }
  }
  return trees;
}

std::uint32_t small_key_trees(std::uint32_t racks, RackShape shape) {
  return shape == RackShape::kHybrid && racks > 1 ? racks : 0;
}

}  // namespace phub
