#include "tests/unit/bench/exchange_by_packets.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bench/simulate/trees.h"
#include "tests/unit/bench/packet_network.h"

namespace phub::bench::simulate {
namespace {

constexpr double kPacketsOfChunk = 16;

class Play {
 public:
  Play(const Network& network, double bytes)
      : network_(network),
        places_(network.places()),
        chunks_(static_cast<std::size_t>(bytes / network.chunk_bytes)),
        packets_(network.chunk_bytes / kPacketsOfChunk) {
    for (std::uint32_t worker = 0; worker < network.workers; ++worker) {
      nics_.push_back(both_ways(network.worker_rate));
    }
    for (std::uint32_t rack = 0; rack < network.racks(); ++rack) {
      uplinks_.push_back(both_ways(network.uplink(rack)));
      for (std::uint32_t server = 0; server < network.servers; ++server) {
        servers_.push_back(both_ways(network.servers_together(rack) / network.servers));
      }
    }
  }

  double sharded() {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const Host root = server(chunk % servers_.size());
      gather(all_workers(), root, [this, root] { scatter(root, all_workers(), [] {}); });
    }
    return start();
  }

  double colocated() {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const Host root = worker(chunk % nics_.size());
      gather(all_workers(), root, [this, root] { scatter(root, all_workers(), [] {}); });
    }
    return start();
  }

  double hierarchical() {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::size_t root_rack = chunk % uplinks_.size();
      const std::size_t index = chunk / uplinks_.size() % network_.servers;
      const Host root = server(root_rack * network_.servers + index);
      auto racks_left = std::make_shared<std::size_t>(uplinks_.size());
      const auto all_in = [this, root, index, racks_left] {
        if (--*racks_left > 0) return;
        for (std::size_t rack = 0; rack < uplinks_.size(); ++rack) {
          const Host own = server(rack * network_.servers + index);
          const auto down = [this, own, rack] { scatter(own, workers_of(rack), [] {}); };
          if (rack == root.rack) {
            down();
          } else {
            send(root, own, down);
          }
        }
      };
      for (std::size_t rack = 0; rack < uplinks_.size(); ++rack) {
        const Host own = server(rack * network_.servers + index);
        gather(workers_of(rack), own, [this, own, root, all_in] {
          if (own.rack == root.rack) {
            all_in();
          } else {
            send(own, root, all_in);
          }
        });
      }
    }
    return start();
  }

  // Each step: a worker hands one part on, when the one before has arrived.
  double ring() {
    const std::size_t steps = 2 * (nics_.size() - 1);
    for (std::size_t at = 0; at < nics_.size(); ++at)
      first_.push_back([=, this] { step(at, steps); });
    return start();
  }

  // A window of chunks for each colour: a leaf that sends all of one colour first would hold up
  // what it forwards of another.
  double trees(std::uint32_t colours) {
    constexpr std::size_t kWindow = 16;
    const TreeShape shape{network_.workers, network_.colours, colours};
    std::size_t left = chunks_;
    std::vector<std::vector<Then>> leaves(chunks_);
    const auto begin = [&leaves](std::size_t chunk) {
      if (chunk >= leaves.size()) return;
      for (const Then& leaf : leaves[chunk]) leaf();
    };
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const auto summed = [this, shape, colours, chunk, begin, &left] {
        begin(chunk + kWindow * colours);
        if (--left > 0) return;
        for (std::size_t each = 0; each < chunks_; ++each) {
          down(shape, static_cast<std::uint32_t>(each % colours), 0);
        }
      };
      up(shape, static_cast<std::uint32_t>(chunk % colours), 0, summed, leaves[chunk]);
    }
    for (std::size_t chunk = 0; chunk < kWindow * colours; ++chunk) begin(chunk);
    return packets_.run();
  }

 private:
  struct Duplex {
    std::size_t in, out;
  };
  struct Host {
    Duplex nic;
    std::size_t rack;
  };
  using Then = std::function<void()>;

  Duplex both_ways(double rate) { return {packets_.add_link(rate), packets_.add_link(rate)}; }
  Host worker(std::size_t i) const { return {nics_[i], places_[i]}; }
  Host server(std::size_t i) const { return {servers_[i], i / network_.servers}; }
  std::vector<Host> all_workers() const {
    std::vector<Host> hosts;
    for (std::size_t i = 0; i < nics_.size(); ++i) hosts.push_back(worker(i));
    return hosts;
  }
  std::vector<Host> workers_of(std::size_t rack) const {
    std::vector<Host> hosts;
    for (const Host& host : all_workers()) {
      if (host.rack == rack) hosts.push_back(host);
    }
    return hosts;
  }

  void send(const Host& from, const Host& to, Then then, double bytes = 0.0) {
    if (from.nic.in == to.nic.in) return then();  // a server on the worker's own host
    std::vector<std::size_t> path = {from.nic.out};
    if (from.rack != to.rack) {
      path.insert(path.end(), {uplinks_[from.rack].out, uplinks_[to.rack].in});
    }
    path.push_back(to.nic.in);
    packets_.send(path, bytes > 0 ? bytes : network_.chunk_bytes, network_.alpha, std::move(then));
  }
  // Workers' sends all wait for start(), chunk by chunk.
  void gather(const std::vector<Host>& from, const Host& to, Then then) {
    auto left = std::make_shared<std::size_t>(from.size());
    for (const Host& host : from) {
      first_.push_back([=, this] {
        send(host, to, [left, then] {
          if (--*left == 0) then();
        });
      });
    }
  }
  void scatter(const Host& from, const std::vector<Host>& to, const Then& then) {
    for (const Host& host : to) send(from, host, then);
  }
  void step(std::size_t at, std::size_t left) {
    if (left == 0) return;
    const std::size_t next = (at + 1) % nics_.size();
    send(
        worker(at), worker(next), [=, this] { step(next, left - 1); },
        static_cast<double>(chunks_) * network_.chunk_bytes / static_cast<double>(nics_.size()));
  }
  // The subtree at a position has summed up; `then` at its root.
  void up(const TreeShape& shape, std::uint32_t colour, std::uint32_t position, const Then& then,
          std::vector<Then>& leaves) {
    auto left = std::make_shared<std::uint32_t>(children_of(shape, position));
    if (*left == 0) {
      leaves.push_back(then);
      return;
    }
    const Host to = worker(rank_at(shape, colour, position));
    for (std::uint32_t child = 0; child < children_of(shape, position); ++child) {
      const std::uint32_t from = position * shape.arity + 1 + child;
      const Host host = worker(rank_at(shape, colour, from));
      const auto sum = [=, this] {
        send(host, to, [left, then] {
          if (--*left == 0) then();
        });
      };
      up(shape, colour, from, sum, leaves);
    }
  }
  void down(const TreeShape& shape, std::uint32_t colour, std::uint32_t position) {
    const Host from = worker(rank_at(shape, colour, position));
    for (std::uint32_t i = 0; i < children_of(shape, position); ++i) {
      const std::uint32_t child = position * shape.arity + 1 + i;
      send(from, worker(rank_at(shape, colour, child)), [=, this] { down(shape, colour, child); });
    }
  }

  double start() {
    for (const Then& each : first_) each();
    return packets_.run();
  }

  const Network network_;
  const std::vector<std::uint32_t> places_;
  const std::size_t chunks_;
  PacketNetwork packets_;
  std::vector<Duplex> nics_, servers_, uplinks_;
  std::vector<Then> first_;
};

}  // namespace

double played(Shape shape, const Network& network, double bytes) {
  Play play(network, bytes);
  switch (shape) {
    case Shape::kSharded:
      return play.sharded();
    case Shape::kColocated:
      return play.colocated();
    case Shape::kHierarchical:
      return play.hierarchical();
    case Shape::kRing:
      return play.ring();
    case Shape::kTree:
      return play.trees(1);
    case Shape::kMulticolour:
      return play.trees(network.colours);
    default:
      return -1.0;
  }
}

}  // namespace phub::bench::simulate
