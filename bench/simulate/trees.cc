#include "bench/simulate/trees.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace phub::bench::simulate {
namespace {

std::uint32_t parent_of(const TreeShape& shape, std::uint32_t position) {
  return (position - 1) / shape.arity;
}

double busiest(const std::vector<double>& in, const std::vector<double>& out) {
  return std::max(*std::max_element(in.begin(), in.end()),
                  *std::max_element(out.begin(), out.end()));
}

}  // namespace

std::uint32_t rank_at(const TreeShape& shape, std::uint32_t colour, std::uint32_t position) {
  const std::uint64_t rotation = std::uint64_t{colour} * shape.nodes / shape.colours;
  return static_cast<std::uint32_t>((position + rotation) % shape.nodes);
}

std::uint32_t children_of(const TreeShape& shape, std::uint32_t position) {
  const std::uint64_t first = std::uint64_t{position} * shape.arity + 1;
  if (first >= shape.nodes) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.arity, shape.nodes - first));
}

std::uint32_t interior_twice(const TreeShape& shape) {
  std::vector<std::uint32_t> interior(shape.nodes, 0);
  for (std::uint32_t colour = 0; colour < shape.colours; ++colour) {
    for (std::uint32_t position = 0; position < shape.nodes; ++position) {
      if (children_of(shape, position) > 0) ++interior[rank_at(shape, colour, position)];
    }
  }
  return static_cast<std::uint32_t>(
      std::count_if(interior.begin(), interior.end(), [](std::uint32_t n) { return n > 1; }));
}

TreeLoad load_of(const TreeShape& shape, const std::vector<std::uint32_t>& places) {
  const std::uint32_t racks = places.back() + 1;
  std::vector<double> in(shape.nodes, 0.0);
  std::vector<double> out(shape.nodes, 0.0);
  std::vector<double> rack_in(racks, 0.0);
  std::vector<double> rack_out(racks, 0.0);
  const double part = 1.0 / shape.colours;
  for (std::uint32_t colour = 0; colour < shape.colours; ++colour) {
    for (std::uint32_t position = 1; position < shape.nodes; ++position) {
      const std::uint32_t from = rank_at(shape, colour, position);
      const std::uint32_t to = rank_at(shape, colour, parent_of(shape, position));
      out[from] += part;
      in[to] += part;
      if (places[from] == places[to]) continue;
      rack_out[places[from]] += part;
      rack_in[places[to]] += part;
    }
  }
  TreeLoad load{.node = busiest(in, out), .uplinks = std::move(rack_in)};
  for (std::uint32_t rack = 0; rack < racks; ++rack) {
    load.uplinks[rack] = std::max(load.uplinks[rack], rack_out[rack]);
  }
  for (std::uint32_t position = shape.nodes - 1; position > 0;
       position = parent_of(shape, position)) {
    ++load.depth;
  }
  return load;
}

}  // namespace phub::bench::simulate
