// Multi-colour trees, after Kumar et al. 2017 (arXiv 1711.00705): a message is cut into `colours`
// parts, each of which is reduced up and broadcast down a tree of its own. The tree of colour c is
// the heap-ordered tree over the ranks that are rotated by floor(c * N / colours), so that its
// interior nodes are other ranks than those of another colour's. One colour is a single tree.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace phub::bench::simulate {

struct TreeShape {
  std::uint32_t nodes = 1;
  std::uint32_t arity = 4;
  std::uint32_t colours = 4;
};

// The rank at a heap position of a colour's tree, and back.
std::uint32_t rank_at(const TreeShape& shape, std::uint32_t colour, std::uint32_t position);
// The children of a heap position.
std::uint32_t children_of(const TreeShape& shape, std::uint32_t position);
// How many nodes are interior in several colours. 0 where the nodes are a multiple of the colours,
// which are as many as the arity.
std::uint32_t interior_twice(const TreeShape& shape);

// What the reduction of one byte puts on the busiest link; the broadcast is its mirror image.
// Bytes.
struct TreeLoad {
  double node = 0.0;              // in or out of one node
  std::vector<double> uplinks{};  // in or out of each rack, whichever is more
  std::uint32_t depth = 0;
};

// `places`: the rack of each node, which are in the order of their racks.
TreeLoad load_of(const TreeShape& shape, const std::vector<std::uint32_t>& places);

}  // namespace phub::bench::simulate
