#include "common/cost/rack_exchange.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace phub::cost {
namespace {

// Bytes between racks for one byte of the job, [from][to].
using Loads = std::vector<std::vector<double>>;

Loads no_loads(std::size_t racks) { return Loads(racks, std::vector<double>(racks, 0.0)); }

// Seconds a byte of each link and of each rack's uplink, for chunks of the network's size.
class Rates {
 public:
  explicit Rates(const RackNetwork& network)
      : network_(network), groups_(rack_groups(network.names)) {}

  double link(std::size_t from, std::size_t to) const {
    return std::max(network_.links[from][to].byte, message());
  }
  // An uplink is as fast as the fastest link that leaves through it, or comes.
  double out(std::size_t rack) const {
    return fastest(rack, [&](std::size_t other) { return link(rack, other); });
  }
  double in(std::size_t rack) const {
    return fastest(rack, [&](std::size_t other) { return link(other, rack); });
  }
  double server(std::size_t rack) const { return std::max(network_.server_byte[rack], message()); }
  // All of a rack's servers together.
  double servers(std::size_t rack) const { return server(rack) / network_.servers; }

  const std::vector<RackGroup>& groups() const { return groups_; }
  // Seconds that the uplink of a group of racks takes for `loads`, the slower way; it is as fast as
  // a rack's would be.
  double crossing(const RackGroup& group, const Loads& loads) const {
    std::vector<bool> is_inside(loads.size(), false);
    for (const std::uint32_t rack : group.racks) is_inside[rack] = true;
    Way out;
    Way in;
    for (const std::uint32_t rack : group.racks) {
      for (std::size_t other = 0; other < loads.size(); ++other) {
        if (is_inside[other]) continue;
        out.add(loads[rack][other], link(rack, other));
        in.add(loads[other][rack], link(other, rack));
      }
    }
    return std::max(out.load * out.byte, in.load * in.byte);
  }

 private:
  // Through an uplink, one direction.
  struct Way {
    double load = 0.0;
    double byte = std::numeric_limits<double>::max();  // of its fastest link
    void add(double more, double link) {
      load += more;
      byte = std::min(byte, link);
    }
  };
  double message() const { return network_.message / network_.chunk_bytes; }
  double fastest(std::size_t rack, const std::function<double(std::size_t)>& byte) const {
    double least = -1.0;
    for (std::size_t other = 0; other < network_.links.size(); ++other) {
      if (other != rack && (least < 0 || byte(other) < least)) least = byte(other);
    }
    return std::max(least, 0.0);
  }

  const RackNetwork& network_;
  const std::vector<RackGroup> groups_;
};

double out_of(const Loads& loads, std::size_t rack) {
  return std::accumulate(loads[rack].begin(), loads[rack].end(), 0.0);
}

double into(const Loads& loads, std::size_t rack) {
  return std::accumulate(loads.begin(), loads.end(), 0.0,
                         [rack](double sum, const auto& from) { return sum + from[rack]; });
}

void bound_between(Exchange& exchange, const RackNetwork& network, const Rates& rates,
                   const Loads& loads) {
  for (std::size_t rack = 0; rack < loads.size(); ++rack) {
    const std::string uplink = "uplink of " + network.names[rack];
    exchange.bound_by({{out_of(loads, rack) * rates.out(rack), uplink},
                       {into(loads, rack) * rates.in(rack), uplink}});
    for (std::size_t to = 0; to < loads.size(); ++to) {
      exchange.bound_by({{loads[rack][to] * rates.link(rack, to),
                          "link from " + network.names[rack] + " to " + network.names[to]}});
    }
  }
  for (const RackGroup& group : rates.groups()) {
    exchange.bound_by({{rates.crossing(group, loads), "uplink of " + group.name}});
  }
}

// What one direction of the edges takes, named from below to above.
struct Direction {
  Loads loads;
  double chunk_byte = 0.0;  // of one chunk at the slowest parent
};

// The edges of all trees that are `depth` below the root.
struct Step {
  Direction up;
  Direction down;
};

std::vector<std::size_t> depths_of(const RackTree& tree) {
  std::vector<std::size_t> depths(tree.parent.size(), 0);
  for (std::size_t rack = 0; rack < depths.size(); ++rack) {
    for (std::size_t at = rack; tree.parent[at] != RackTree::kNone; at = tree.parent[at]) {
      ++depths[rack];
    }
  }
  return depths;
}

// Of each rack, how many send their sums through it, itself among them.
std::vector<double> summed_in(const RackTree& tree) {
  std::vector<double> summed(tree.parent.size(), 0.0);
  for (std::size_t rack = 0; rack < summed.size(); ++rack) {
    for (std::size_t at = rack; at != RackTree::kNone; at = tree.parent[at]) summed[at] += 1.0;
  }
  return summed;
}

void add_steps(const RackTree& tree, double share, const RackSums& sums, const Rates& rates,
               std::vector<Step>& steps) {
  const std::size_t racks = tree.parent.size();
  const std::vector<std::size_t> depths = depths_of(tree);
  const std::vector<double> summed = summed_in(tree);
  const double down = sums.down(static_cast<double>(racks));
  std::vector<double> children(racks, 0.0);  // what comes up to each rack
  std::vector<double> replies(racks, 0.0);
  for (std::size_t rack = 0; rack < racks; ++rack) {
    if (depths[rack] == 0) continue;
    const std::size_t above = tree.parent[rack];
    const double up = sums.up(summed[rack]);
    children[above] += up;
    replies[above] += down;
    if (steps.size() < depths[rack]) {
      steps.resize(depths[rack], {.up = {no_loads(racks)}, .down = {no_loads(racks)}});
    }
    Step& step = steps[depths[rack] - 1];
    step.up.loads[rack][above] += share * up;
    step.down.loads[rack][above] += share * down;
    const double link = rates.link(rack, above);
    step.up.chunk_byte = std::max(step.up.chunk_byte, up * link);
    step.down.chunk_byte = std::max(step.down.chunk_byte, down * link);
  }
  for (std::size_t rack = 0; rack < racks; ++rack) {
    if (replies[rack] <= 0.0) continue;
    Step& step = steps[depths[rack]];
    const double parent = std::max(rates.server(rack), rates.in(rack));
    step.up.chunk_byte = std::max(step.up.chunk_byte, children[rack] * parent);
    step.down.chunk_byte = std::max(step.down.chunk_byte, replies[rack] * parent);
  }
}

double slowest_crossing(const Loads& loads, const Rates& rates) {
  double slowest = 0.0;
  for (const RackGroup& group : rates.groups()) {
    slowest = std::max(slowest, rates.crossing(group, loads));
  }
  return slowest;
}

// The slowest rack, server, group or link of a step.
double byte_of(const Loads& loads, const Rates& rates) {
  double slowest = slowest_crossing(loads, rates);
  for (std::size_t rack = 0; rack < loads.size(); ++rack) {
    const double out = out_of(loads, rack) * std::max(rates.servers(rack), rates.out(rack));
    const double in = into(loads, rack) * std::max(rates.servers(rack), rates.in(rack));
    slowest = std::max({slowest, out, in});
    for (std::size_t to = 0; to < loads.size(); ++to) {
      if (to != rack) slowest = std::max(slowest, loads[rack][to] * rates.link(rack, to));
    }
  }
  return slowest;
}

// Of the longest way up to a root and the longest way down.
double latency_of(const RackNetwork& network, const std::vector<RackTree>& trees) {
  double longest = 0.0;
  for (const RackTree& tree : trees) {
    double up_most = 0.0;
    double down_most = 0.0;
    for (std::size_t rack = 0; rack < tree.parent.size(); ++rack) {
      double up = 0.0;
      double down = 0.0;
      for (std::size_t at = rack; tree.parent[at] != RackTree::kNone; at = tree.parent[at]) {
        up += network.links[at][tree.parent[at]].alpha;
        down += network.links[tree.parent[at]][at].alpha;
      }
      up_most = std::max(up_most, up);
      down_most = std::max(down_most, down);
    }
    longest = std::max(longest, up_most + down_most);
  }
  return longest;
}

// Sums go up, replies down.
Loads both_ways(const std::vector<Step>& steps) {
  Loads all = no_loads(steps.front().up.loads.size());
  for (const Step& step : steps) {
    for (std::size_t from = 0; from < all.size(); ++from) {
      for (std::size_t to = 0; to < all.size(); ++to) {
        all[from][to] += step.up.loads[from][to] + step.down.loads[to][from];
      }
    }
  }
  return all;
}

}  // namespace

double RackSums::up(double racks) const {
  if (density <= 0.0) return whole;
  // A u32 beside each float; what is no smaller so goes whole.
  const double some = std::min(1.0, 2 * density * racks);
  return whole * (uncompressed + (1.0 - uncompressed) * some);
}

double RackSums::down(double racks) const { return density > 0.0 ? up(racks) : 1.0; }

Exchange rack_exchange(const RackNetwork& network, const std::vector<RackTree>& trees) {
  return rack_exchange(network, trees,
                       std::vector<double>(trees.size(), 1.0 / static_cast<double>(trees.size())));
}

Exchange rack_exchange(const RackNetwork& network, const std::vector<RackTree>& all_trees,
                       const std::vector<double>& shares) {
  const Rates rates(network);
  std::vector<RackTree> trees;
  std::vector<Step> steps;
  for (std::size_t i = 0; i < all_trees.size(); ++i) {
    if (!(shares[i] > 0)) continue;
    trees.push_back(all_trees[i]);
    add_steps(all_trees[i], shares[i], network.sums, rates, steps);
  }
  const Loads loads = both_ways(steps);
  Exchange exchange{.is_streamed = true, .bound = "latency", .chunk_bytes = network.chunk_bytes};
  exchange.unit_bytes = static_cast<double>(trees.size()) * network.servers * network.chunk_bytes;
  Stage inside;
  for (std::size_t rack = 0; rack < network.workers.size(); ++rack) {
    const double workers = network.workers[rack];
    const double across = std::max(out_of(loads, rack), into(loads, rack));
    exchange.bound_by(
        {{network.worker_byte[rack], "workers' NICs in " + network.names[rack]},
         {(workers + across) * rates.servers(rack), "servers' NICs in " + network.names[rack]}});
    inside.byte = std::max({inside.byte, network.worker_byte[rack], workers * rates.servers(rack)});
    inside.chunk_byte = std::max(inside.chunk_byte, workers * rates.server(rack));
  }
  bound_between(exchange, network, rates, loads);
  exchange.stages = {inside, inside};
  for (const Step& step : steps) {
    for (const Direction* const one : {&step.up, &step.down}) {
      exchange.stages.push_back(
          {.byte = byte_of(one->loads, rates), .chunk_byte = one->chunk_byte});
    }
  }
  exchange.latency = 2 * network.inside_alpha + latency_of(network, trees);
  return exchange;
}

Exchange flat_exchange(const RackNetwork& network) {
  const Rates rates(network);
  const std::size_t count = network.workers.size();
  const auto racks = static_cast<double>(count);
  const double all = std::accumulate(network.workers.begin(), network.workers.end(), 0.0);
  Exchange exchange{.is_streamed = true, .bound = "latency", .chunk_bytes = network.chunk_bytes};
  exchange.unit_bytes = racks * network.servers * network.chunk_bytes;
  Loads pushes = no_loads(count);
  Loads loads = no_loads(count);
  Stage hop;
  double alpha = network.inside_alpha;
  for (std::size_t rack = 0; rack < count; ++rack) {
    const double server = all / racks * rates.servers(rack);
    exchange.bound_by({{network.worker_byte[rack], "workers' NICs in " + network.names[rack]},
                       {server, "servers' NICs in " + network.names[rack]}});
    hop.byte = std::max({hop.byte, network.worker_byte[rack], server});
    hop.chunk_byte = std::max(
        {hop.chunk_byte, all * rates.server(rack), (all - network.workers[rack]) * rates.in(rack)});
    for (std::size_t to = 0; to < count; ++to) {
      if (to == rack) continue;
      alpha = std::max(alpha, network.links[rack][to].alpha);
      pushes[rack][to] = network.workers[rack] / racks;
      loads[rack][to] = pushes[rack][to] + network.workers[to] / racks;  // and replies
    }
  }
  bound_between(exchange, network, rates, loads);
  for (std::size_t rack = 0; rack < count; ++rack) {
    hop.byte = std::max(
        {hop.byte, out_of(pushes, rack) * rates.out(rack), into(pushes, rack) * rates.in(rack)});
  }
  hop.byte = std::max(hop.byte, slowest_crossing(pushes, rates));
  exchange.stages = {hop, hop};
  exchange.latency = 2 * alpha;
  return exchange;
}

}  // namespace phub::cost
