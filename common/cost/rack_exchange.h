// What an exchange over racks costs, from the latency and the rate of each link between them: with
// the racks joined by trees, and flat, where all workers go to the servers of all racks.
//
// Where all links are alike and the shape is `spread` these are the formulas of the bench's
// simulate (hierarchical, sharded), which a test holds together. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/cost/exchange.h"
#include "common/plan/rack_trees.h"

namespace phub::cost {

struct RackLink {
  double alpha = 0.0;  // seconds
  double byte = 0.0;   // seconds a byte
};

// What crosses an edge between racks, for one byte that a worker pushes.
struct RackSums {
  double whole = 1.0;         // of a whole sum in the type that it crosses in
  double density = 0.0;       // share of each rack's elements that goes up; 0: all of them
  double uncompressed = 0.0;  // with a density: the share of the bytes that goes whole all the same

  // Of the sum of so many racks, on its way up; an element has its place beside it. Racks choose
  // other elements, which is the most that it can be.
  double up(double racks) const;
  // Of the reply to it: parameters in the wire type, or with a density the sum of all racks.
  double down(double racks) const;
};

// The racks of a job. By rack, all of one length.
struct RackNetwork {
  // With levels where groups of racks, as rows and sites, have an uplink together (rack_groups).
  std::vector<std::string> names;
  std::vector<std::uint32_t> workers;
  std::vector<double> worker_byte;           // seconds a byte, of a worker's NIC
  std::vector<double> server_byte;           // of a server's
  std::vector<std::vector<RackLink>> links;  // [from][to]; those to the rack itself are not read
  std::uint32_t servers = 1;                 // of a rack
  double inside_alpha = 0.0;                 // seconds between a worker and its rack's server
  double message =
      0.0;  // seconds that a link between racks, or a server, takes for a chunk at least
  double chunk_bytes = 32768;
  RackSums sums = {};
};

// Racks that are joined by `trees`, which have equal shares of the bytes.
// REQUIRES: two racks or more, of which the trees are.
Exchange rack_exchange(const RackNetwork& network, const std::vector<RackTree>& trees);
// With shares of their own, which are 1 together: a tree of none is as if it were not there.
Exchange rack_exchange(const RackNetwork& network, const std::vector<RackTree>& trees,
                       const std::vector<double>& shares);

// REQUIRES: two racks or more.
Exchange flat_exchange(const RackNetwork& network);

}  // namespace phub::cost
