#include "bench/simulate/shapes.h"

#include <algorithm>
#include <string>

#include "bench/simulate/trees.h"
#include "common/cost/rack_exchange.h"
#include "common/plan/rack_trees.h"

namespace phub::bench::simulate {
namespace {

struct RackTerms {
  double workers;
  double server, uplink;   // seconds a byte
  std::string place = {};  // " of rack 2", where racks differ
};

// The network's figures, as the formulas name them.
struct Terms {
  explicit Terms(const Network& network)
      : all(network.workers),
        racks(network.racks()),
        elsewhere((racks - 1) / racks),
        worker(1.0 / network.worker_rate) {
    // Where racks are alike, the fullest stands for all.
    const std::uint32_t different = network.is_uniform() ? 1 : network.racks();
    for (std::uint32_t i = 0; i < different; ++i) {
      each.push_back({.workers = 1.0 * network.in_rack(i),
                      .server = 1.0 / network.servers_together(i),
                      .uplink = 1.0 / network.uplink(i),
                      .place = network.is_uniform() ? "" : " of rack " + std::to_string(i)});
    }
  }

  double all, racks;
  double elsewhere;  // the share of chunks whose server is in another rack
  double worker;     // seconds a byte
  std::vector<RackTerms> each;
};

// A hop that takes as long as that of the slowest rack.
void reach(Stage& stage, double byte, double chunk_byte) {
  stage.byte = std::max(stage.byte, byte);
  stage.chunk_byte = std::max(stage.chunk_byte, chunk_byte);
}

void make_ring(Exchange& exchange, const Terms& t, double alpha) {
  exchange.latency = 2 * (t.all - 1) * alpha;
  const double bytes = 2 * (t.all - 1) / t.all;
  exchange.bound_by({{bytes * t.worker, "worker NIC"}});
  if (t.racks == 1) return;
  for (const RackTerms& rack : t.each) {
    exchange.bound_by({{bytes * rack.uplink, "uplink" + rack.place}});
  }
}

void make_sharded(Exchange& exchange, const Terms& t, const Network& network) {
  exchange.bound_by({{t.worker, "worker NIC"}});
  Stage hop{.byte = t.worker};
  for (const RackTerms& rack : t.each) {
    const double others = t.all - rack.workers;
    // Pushes out of the rack, pushes into it; replies mirror them.
    const double out = rack.workers * t.elsewhere * rack.uplink;
    const double in = others / t.racks * rack.uplink;
    const double server = t.all / t.racks * rack.server;
    exchange.bound_by({{server, "server NIC" + rack.place}, {out + in, "uplink" + rack.place}});
    reach(hop, std::max({server, out, in}),
          std::max(t.all * network.servers * rack.server, others * rack.uplink));
  }
  exchange.unit_bytes = t.racks * network.servers * exchange.chunk_bytes;
  exchange.stages = {hop, hop};
  exchange.latency = 2 * network.alpha;
}

void make_colocated(Exchange& exchange, const Terms& t, double alpha) {
  const double others = (t.all - 1) / t.all;
  exchange.bound_by({{2 * others * t.worker, "worker NIC"}});
  Stage hop{.byte = others * t.worker, .chunk_byte = (t.all - 1) * t.worker};
  for (const RackTerms& rack : t.each) {
    const double uplink = rack.workers * (t.all - rack.workers) / t.all * rack.uplink;
    exchange.bound_by({{2 * uplink, "uplink" + rack.place}});
    reach(hop, uplink, 0.0);
  }
  exchange.unit_bytes = t.all * exchange.chunk_bytes;
  exchange.stages = {hop, hop};
  exchange.latency = t.all > 1 ? 2 * alpha : 0.0;
}

// Roots are spread evenly over the racks, whatever their size.
void make_hierarchical(Exchange& exchange, const Terms& t, const Network& network) {
  const double across = 2 * t.elsewhere;  // sums out or in, and replies
  exchange.bound_by({{t.worker, "worker NIC"}});
  Stage inside{.byte = t.worker};
  Stage between;
  for (const RackTerms& rack : t.each) {
    exchange.bound_by({{(rack.workers + across) * rack.server, "server NIC" + rack.place},
                       {across * rack.uplink, "uplink" + rack.place}});
    reach(inside, rack.workers * rack.server, rack.workers * network.servers * rack.server);
    reach(between, t.elsewhere * std::max(rack.server, rack.uplink),
          (t.racks - 1) * std::max(network.servers * rack.server, rack.uplink));
  }
  exchange.unit_bytes = t.racks * network.servers * exchange.chunk_bytes;
  exchange.stages = {inside, inside};
  exchange.latency = 2 * network.alpha;
  if (t.racks == 1) return;
  exchange.stages.insert(exchange.stages.end(), {between, between});
  exchange.latency += 2 * network.alpha;
}

void make_trees(Exchange& exchange, const Terms& t, const Network& network, std::uint32_t colours) {
  const TreeLoad load = load_of(
      {.nodes = network.workers, .arity = network.colours, .colours = colours}, network.places());
  exchange.bound_by({{2 * load.node * t.worker, "worker NIC"}});
  for (std::size_t i = 0; i < load.uplinks.size(); ++i) {
    const RackTerms& rack = t.each[network.is_uniform() ? 0 : i];
    exchange.bound_by({{2 * load.uplinks[i] * rack.uplink, "uplink" + rack.place}});
  }
  exchange.unit_bytes = colours * exchange.chunk_bytes;
  // Up and down. A node has several children's copies of one chunk.
  const double children = std::min(network.colours, network.workers - 1);
  exchange.stages.assign(2 * load.depth,
                         {.byte = exchange.byte / 2, .chunk_byte = children * t.worker});
  exchange.latency = 2 * load.depth * network.alpha;
}

// A link between two racks is as fast as the slower one's uplink.
cost::RackNetwork racks_of(const Network& network) {
  const std::uint32_t racks = network.racks();
  cost::RackNetwork made{.names = {},
                         .workers = {},
                         .worker_byte = std::vector<double>(racks, 1.0 / network.worker_rate),
                         .server_byte = {},
                         .links = {},
                         .servers = network.servers,
                         .inside_alpha = network.alpha,
                         .chunk_bytes = network.chunk_bytes};
  for (std::uint32_t from = 0; from < racks; ++from) {
    made.names.push_back("rack " + std::to_string(from));
    made.workers.push_back(network.in_rack(from));
    made.server_byte.push_back(network.servers / network.servers_together(from));
    std::vector<cost::RackLink>& links = made.links.emplace_back();
    for (std::uint32_t to = 0; to < racks; ++to) {
      const double rate = std::min(network.uplink(from), network.uplink(to));
      links.push_back({.alpha = network.alpha, .byte = 1.0 / rate});
    }
  }
  return made;
}

void make_joined(Exchange& exchange, const Terms& t, const Network& network, RackShape shape) {
  if (network.racks() == 1) {
    make_hierarchical(exchange, t, network);
    return;
  }
  static_cast<cost::Exchange&>(exchange) =
      cost::rack_exchange(racks_of(network), make_rack_trees(network.racks(), shape));
}

}  // namespace

std::string_view name_of(Shape shape) { return kShapeNames[static_cast<std::size_t>(shape)]; }

std::uint32_t Network::racks() const {
  if (!is_uniform()) return static_cast<std::uint32_t>(racks_workers.size());
  return (workers + in_rack() - 1) / in_rack();
}

std::uint32_t Network::in_rack() const {
  if (!is_uniform()) return *std::max_element(racks_workers.begin(), racks_workers.end());
  return rack_workers == 0 ? workers : std::min(workers, rack_workers);
}

std::uint32_t Network::in_rack(std::uint32_t rack) const {
  return is_uniform() ? in_rack() : racks_workers[rack];
}

double Network::servers_together(std::uint32_t rack) const {
  return server_rate > 0 ? server_rate : in_rack(rack) * worker_rate;
}

double Network::uplink(std::uint32_t rack) const {
  const double rate = is_uniform() ? uplink_rate : racks_uplinks[rack];
  return rate > 0 ? rate : in_rack(rack) * worker_rate;
}

std::vector<std::uint32_t> Network::places() const {
  std::vector<std::uint32_t> places;
  places.reserve(workers);
  for (std::uint32_t rack = 0; places.size() < workers; ++rack) {
    const std::size_t left = workers - places.size();
    places.insert(places.end(), std::min<std::size_t>(left, in_rack(rack)), rack);
  }
  return places;
}

Exchange exchange_of(Shape shape, const Network& network) {
  Exchange exchange;
  exchange.shape = shape;
  exchange.bound = "latency";
  exchange.chunk_bytes = network.chunk_bytes;
  const Terms t(network);
  switch (shape) {
    case Shape::kMeasured:
      exchange.bound = "as measured";
      break;
    case Shape::kLink:
      exchange.latency = network.alpha;
      exchange.bound_by({{t.worker, "link"}});
      break;
    case Shape::kRing:
      make_ring(exchange, t, network.alpha);
      break;
    case Shape::kSharded:
      make_sharded(exchange, t, network);
      break;
    case Shape::kColocated:
      make_colocated(exchange, t, network.alpha);
      break;
    case Shape::kHierarchical:
      make_hierarchical(exchange, t, network);
      break;
    case Shape::kTree:
      make_trees(exchange, t, network, 1);
      break;
    case Shape::kMulticolour:
      make_trees(exchange, t, network, network.colours);
      break;
    case Shape::kRackChain:
      make_joined(exchange, t, network, RackShape::kChain);
      break;
    case Shape::kRackMulticolour:
      make_joined(exchange, t, network, RackShape::kMulticolour);
      break;
  }
  exchange.has_servers = shape == Shape::kSharded || shape == Shape::kColocated ||
                         shape == Shape::kHierarchical || has_rack_trees(shape);
  exchange.is_streamed = exchange.has_servers;
  return exchange;
}

}  // namespace phub::bench::simulate
