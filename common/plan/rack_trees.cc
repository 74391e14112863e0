#include "common/plan/rack_trees.h"

#include <algorithm>

#include "common/base/words.h"

namespace phub {
namespace {

constexpr Words<RackShape, 5> kShapes = {{"spread", "chain", "multicolour", "hybrid", "tree"}};
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

}  // namespace

std::string_view name_of(RackShape shape) { return kShapes.of(shape); }
std::optional<RackShape> rack_shape_of(std::string_view name) { return kShapes.parse(name); }

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
