// What the exchange of a message costs: the shapes of an exchange over a network of racks.
//
// Links are full duplex. Latency is `alpha` a hop; a link of rate B takes 1/B a byte (beta). Shapes
// with servers and trees cut a message into chunks, which follow each other through the hops: the
// time of M bytes is the hops' latency, the first chunk's way, and the other bytes at the busiest
// link. Formulas: phub (arXiv 1805.07891) cost model; Shi et al. 2018 (arXiv 1805.03812) for link
// and ring; Kumar et al. 2017 (arXiv 1711.00705) for trees.
//
// Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/cost/exchange.h"

namespace phub::bench::simulate {

enum class Shape : std::uint8_t {
  kMeasured,      // each layer as long as the trace says
  kLink,          // alpha + beta * bytes, whatever the workers: with fitted constants
  kRing,          // 2(N-1) alpha + 2(N-1)/N * bytes * beta; ranks in the order of the racks
  kSharded,       // flat: every worker with the servers of all racks
  kColocated,     // flat: a server on each worker's host, on the same NIC
  kHierarchical,  // a rack's servers sum, a chunk's root in one rack sums over racks
  kTree,          // one tree, reduced, then broadcast
  kMulticolour,   // as many trees as its arity
  // As kHierarchical, with racks joined in a job's other shapes (common/plan/rack_trees.h).
  kRackChain,
  kRackMulticolour,
};

// In the order of the enumeration.
inline constexpr std::string_view kShapeNames[] = {
    "measured",     "link", "ring",        "sharded",    "colocated",
    "hierarchical", "tree", "multicolour", "rack-chain", "rack-multicolour"};
std::string_view name_of(Shape shape);

struct Network {
  std::uint32_t workers = 8;
  std::uint32_t rack_workers = 0;  // of a full rack; 0: all in one
  std::uint32_t servers = 1;       // of a rack
  std::uint32_t colours = 4;       // and the arity of trees
  double alpha = 50e-6;            // seconds a hop
  double worker_rate = 1.25e9;     // bytes a second, of a worker's NIC
  double server_rate = 0.0;        // of all servers of a rack together; 0: of its workers together
  double uplink_rate = 0.0;        // of a rack; 0: of its workers together
  double chunk_bytes = 32768;
  // Of each rack, where racks differ; both empty, or both with an entry for each. Workers in place
  // of rack_workers, which are `workers` together; rates in place of uplink_rate.
  std::vector<std::uint32_t> racks_workers{};
  std::vector<double> racks_uplinks{};

  bool is_uniform() const { return racks_workers.empty(); }
  std::uint32_t racks() const;
  std::uint32_t in_rack() const;  // workers of the fullest rack
  // Of one rack. A uniform network's racks are equipped as its fullest.
  std::uint32_t in_rack(std::uint32_t rack) const;
  double servers_together(std::uint32_t rack) const;
  double uplink(std::uint32_t rack) const;
  // The rack of each worker.
  std::vector<std::uint32_t> places() const;
};

// Of the shapes that join racks by listed trees.
inline bool has_rack_trees(Shape shape) {
  return shape == Shape::kRackChain || shape == Shape::kRackMulticolour;
}

using cost::MessageCost;
using cost::Stage;

// Made by exchange_of.
struct Exchange : cost::Exchange {
  Shape shape = Shape::kLink;
  bool has_servers = false;  // that update

  // The same without latency and ways of chunks: only the busiest link's rate counts.
  Exchange of_rates_only() const {
    Exchange rates = *this;
    rates.keep_rates_only();
    return rates;
  }
};

// REQUIRES: workers, of each rack too, servers, colours and rates above 0; with has_rack_trees at
// most kMaxRacks racks.
Exchange exchange_of(Shape shape, const Network& network);

}  // namespace phub::bench::simulate
