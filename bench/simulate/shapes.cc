#include "bench/simulate/shapes.h"

#include <algorithm>

#include "bench/simulate/trees.h"

namespace phub::bench::simulate {
namespace {

struct Limit {
  double byte;  // seconds a byte
  const char* name;
};

void bound_by(Exchange& exchange, std::initializer_list<Limit> limits) {
  for (const Limit& limit : limits) {
    if (limit.byte <= exchange.byte) continue;
    exchange.byte = limit.byte;
    exchange.bound = limit.name;
  }
}

// The network's figures, as the formulas name them.
struct Terms {
  explicit Terms(const Network& network)
      : all(network.workers),
        in_rack(network.in_rack()),
        racks(network.racks()),
        elsewhere((racks - 1) / racks),
        worker(1.0 / network.worker_rate),
        server(1.0 / network.servers_together()),
        uplink(1.0 / network.uplink()) {}

  double all, in_rack, racks;
  double elsewhere;               // the share of chunks whose server is in another rack
  double worker, server, uplink;  // seconds a byte
};

void make_ring(Exchange& exchange, const Terms& t, double alpha) {
  exchange.latency = 2 * (t.all - 1) * alpha;
  const double bytes = 2 * (t.all - 1) / t.all;
  bound_by(exchange,
           {{bytes * t.worker, "worker NIC"}, {t.racks > 1 ? bytes * t.uplink : 0.0, "uplink"}});
}

void make_sharded(Exchange& exchange, const Terms& t, const Network& network) {
  const double others = t.all - t.in_rack;
  // Pushes out of the fullest rack, pushes into it; replies mirror them.
  const double out = t.in_rack * t.elsewhere * t.uplink;
  const double in = others / t.racks * t.uplink;
  const double server = t.all / t.racks * t.server;
  bound_by(exchange, {{t.worker, "worker NIC"}, {server, "server NIC"}, {out + in, "uplink"}});
  exchange.unit_bytes = t.racks * network.servers * exchange.chunk_bytes;
  const Stage hop{.byte = std::max({t.worker, server, out, in}),
                  .chunk_byte = std::max(t.all * network.servers * t.server, others * t.uplink)};
  exchange.stages = {hop, hop};
  exchange.latency = 2 * network.alpha;
}

void make_colocated(Exchange& exchange, const Terms& t, double alpha) {
  const double others = (t.all - 1) / t.all;
  const double uplink = t.in_rack * (t.all - t.in_rack) / t.all * t.uplink;
  bound_by(exchange, {{2 * others * t.worker, "worker NIC"}, {2 * uplink, "uplink"}});
  exchange.unit_bytes = t.all * exchange.chunk_bytes;
  const Stage hop{.byte = std::max(others * t.worker, uplink),
                  .chunk_byte = (t.all - 1) * t.worker};
  exchange.stages = {hop, hop};
  exchange.latency = t.all > 1 ? 2 * alpha : 0.0;
}

void make_hierarchical(Exchange& exchange, const Terms& t, const Network& network) {
  const double across = 2 * t.elsewhere;  // sums out or in, and replies
  bound_by(exchange, {{t.worker, "worker NIC"},
                      {(t.in_rack + across) * t.server, "server NIC"},
                      {across * t.uplink, "uplink"}});
  exchange.unit_bytes = t.racks * network.servers * exchange.chunk_bytes;
  const Stage inside{.byte = std::max(t.worker, t.in_rack * t.server),
                     .chunk_byte = t.in_rack * network.servers * t.server};
  exchange.stages = {inside, inside};
  exchange.latency = 2 * network.alpha;
  if (t.racks == 1) return;
  const Stage between{.byte = t.elsewhere * std::max(t.server, t.uplink),
                      .chunk_byte = (t.racks - 1) * std::max(network.servers * t.server, t.uplink)};
  exchange.stages.insert(exchange.stages.end(), {between, between});
  exchange.latency += 2 * network.alpha;
}

void make_trees(Exchange& exchange, const Terms& t, const Network& network, std::uint32_t colours) {
  const TreeLoad load = load_of(
      {.nodes = network.workers, .arity = network.colours, .colours = colours}, network.in_rack());
  bound_by(exchange,
           {{2 * load.node * t.worker, "worker NIC"}, {2 * load.uplink * t.uplink, "uplink"}});
  exchange.unit_bytes = colours * exchange.chunk_bytes;
  // Up and down. A node has several children's copies of one chunk.
  const double children = std::min(network.colours, network.workers - 1);
  exchange.stages.assign(2 * load.depth,
                         {.byte = exchange.byte / 2, .chunk_byte = children * t.worker});
  exchange.latency = 2 * load.depth * network.alpha;
}

}  // namespace

std::string_view name_of(Shape shape) { return kShapeNames[static_cast<std::size_t>(shape)]; }

std::uint32_t Network::in_rack() const {
  return rack_workers == 0 ? workers : std::min(workers, rack_workers);
}

std::uint32_t Network::racks() const { return (workers + in_rack() - 1) / in_rack(); }

double Exchange::seconds(double bytes) const {
  if (bytes <= 0) return 0;
  const double unit = std::min(bytes, unit_bytes);
  const double chunk = std::min(bytes, chunk_bytes);
  double total = latency;
  for (const Stage& stage : stages) {
    total += std::max(unit * stage.byte, chunk * stage.chunk_byte);
  }
  // Trees: the hops of one direction work at once, the two directions one after the other.
  return total + (bytes - unit) * byte;
}

MessageCost Exchange::cost(double bytes) const {
  const double total = seconds(bytes);
  if (!is_streamed) return {.busy = total};
  const double busy = std::min(total, bytes * byte);
  return {.busy = busy, .delay = total - busy};
}

Exchange Exchange::of_rates_only() const {
  Exchange rates = *this;
  rates.latency = 0.0;
  rates.unit_bytes = 0.0;
  rates.stages.clear();
  return rates;
}

Exchange exchange_of(Shape shape, const Network& network) {
  Exchange exchange{.shape = shape, .bound = "latency", .chunk_bytes = network.chunk_bytes};
  const Terms t(network);
  switch (shape) {
    case Shape::kMeasured:
      exchange.bound = "as measured";
      break;
    case Shape::kLink:
      exchange.latency = network.alpha;
      bound_by(exchange, {{t.worker, "link"}});
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
  }
  exchange.has_servers =
      shape == Shape::kSharded || shape == Shape::kColocated || shape == Shape::kHierarchical;
  exchange.is_streamed = exchange.has_servers;
  return exchange;
}

}  // namespace phub::bench::simulate
