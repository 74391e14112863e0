#include "bench/rack/round_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "bench/rack/scenario.h"
#include "bench/replay/outcome.h"
#include "common/plan/rack_trees.h"

namespace phub::bench {
namespace {

constexpr double kMostPackets = 1 << 20;
constexpr double kBytesOfMbit = 1e6 / 8;
constexpr double kBytesOfKib = 1024.0;

enum class Kind : std::uint8_t { kSum, kReply };

// From whom to whom; between servers both are false.
struct Way {
  Kind kind = Kind::kSum;
  std::size_t from = 0;  // host
  std::size_t to = 0;
  bool from_worker = false;
  bool to_worker = false;
};

// A chunk on its way from one host to another.
struct Message {
  Kind kind = Kind::kSum;
  std::uint32_t chunk = 0;
  std::size_t from = 0;  // host
  std::size_t to = 0;
  bool from_worker = false;
  bool to_worker = false;
  std::array<std::size_t, 4> ways = {};  // of links, in order
  std::size_t hops = 0;
  std::uint32_t packets_here = 0;  // that have not left the sender
  std::uint32_t packets_left = 0;  // that have not come
};

struct Packet {
  double comes = 0.0;
  std::uint64_t order = 0;  // of packets that come at once the first to be sent is first
  double bytes = 0.0;
  Message* message = nullptr;
  std::size_t hop = 0;
  bool operator>(const Packet& other) const {
    return std::pair(comes, order) > std::pair(other.comes, other.order);
  }
};

// Which host has what of a chunk. Of a flat exchange all hosts are in one rack.
class ChunkPlan {
 public:
  ChunkPlan(const RackScenario& scenario, const Fabric& fabric, std::uint32_t chunks)
      : hosts_(fabric.hosts) {
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (hosts_[host].has_server) servers_.push_back(host);
      workers_.insert(workers_.end(), hosts_[host].workers, host);
    }
    if (!is_joined(scenario)) return;
    const RackShape shape = rack_shape_of(scenario.shape()).value();
    racks_ = fabric.racks;
    trees_ = make_rack_trees(racks_, shape);
    spread(chunks, small_key_trees(racks_, shape), small_share_of(scenario));
  }

  std::uint32_t racks() const { return racks_; }
  std::uint32_t rack_of(std::size_t host) const { return trees_.empty() ? 0 : hosts_[host].rack; }
  const std::vector<std::size_t>& workers() const { return workers_; }

  std::size_t server_of(std::uint32_t chunk, std::uint32_t rack) const {
    return servers_[rack * servers_of_rack() + chunk % servers_of_rack()];
  }
  // RackTree::kNone: that rack is the root.
  std::uint32_t above(std::uint32_t chunk, std::uint32_t rack) const {
    if (trees_.empty()) return RackTree::kNone;
    return trees_[tree_of_[chunk]].parent[rack];
  }

 private:
  std::size_t servers_of_rack() const { return servers_.size() / racks_; }

  // Evenly, those of small keys over the first `small` trees, others over the rest.
  void spread(std::uint32_t chunks, std::size_t small, double small_share) {
    std::size_t smalls = 0;
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const bool is_small =
          small > 0 && std::floor((chunk + 1) * small_share) > static_cast<double>(smalls);
      const std::size_t before = (is_small ? smalls : chunk - smalls) / servers_of_rack();
      tree_of_.push_back(is_small ? before % small : small + before % (trees_.size() - small));
      if (is_small) ++smalls;
    }
  }

  const std::vector<RackHost>& hosts_;
  std::vector<RackTree> trees_;
  std::vector<std::size_t> tree_of_;  // by chunk
  std::uint32_t racks_ = 1;
  std::vector<std::size_t> servers_;
  std::vector<std::size_t> workers_;
};

std::uint32_t chunks_of(const Work& work) {
  const double chunk = kBytesOfKib * work.chunk_kib;
  return static_cast<std::uint32_t>(std::ceil(static_cast<double>(work.payload_bytes()) / chunk));
}

class RoundModel {
 public:
  RoundModel(const RackScenario& scenario, const Fabric& fabric)
      : fabric_(fabric),
        chunks_(chunks_of(work_of(scenario))),
        plan_(scenario, fabric, chunks_),
        sum_ratio_(sum_ratio_of(scenario)),
        payload_share_(replay::payload_share(scenario.links().mtu())),
        latency_(scenario.links().latency_us() / 1e6),
        free_(2 * fabric.links.size(), 0.0) {
    const Work work = work_of(scenario);
    const auto all = static_cast<double>(work.payload_bytes());
    chunk_bytes_ = kBytesOfKib * work.chunk_kib;
    last_chunk_bytes_ = all - (chunks_ - 1) * chunk_bytes_;
    packet_bytes_ =
        std::max(scenario.links().mtu() * payload_share_, all * work.workers / kMostPackets);
    waits_for_.assign(std::size_t{chunks_} * plan_.racks(), 0);
    for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) expect(chunk);
  }

  double seconds() {
    for (const std::size_t worker : plan_.workers()) push(worker, 0, 0.0);
    while (!packets_.empty()) {
      const Packet packet = packets_.top();
      packets_.pop();
      pass(packet);
    }
    return last_reply_;
  }

 private:
  std::uint32_t& waits_for(std::uint32_t chunk, std::uint32_t rack) {
    return waits_for_[std::size_t{chunk} * plan_.racks() + rack];
  }

  void expect(std::uint32_t chunk) {
    for (const std::size_t worker : plan_.workers()) ++waits_for(chunk, plan_.rack_of(worker));
    for (std::uint32_t rack = 0; rack < plan_.racks(); ++rack) {
      const std::uint32_t above = plan_.above(chunk, rack);
      if (above != RackTree::kNone) ++waits_for(chunk, above);
    }
  }

  // Through the NICs of both and, if they are in different racks, the uplinks of these.
  void set_ways(Message& message) const {
    const auto go = [&](std::size_t link, std::size_t way) {
      message.ways[message.hops++] = 2 * link + way;
    };
    if (message.from == message.to) return;  // through memory, at once
    const std::uint32_t out = fabric_.hosts[message.from].rack;
    const std::uint32_t in = fabric_.hosts[message.to].rack;
    go(message.from, 0);
    if (out != in) {
      go(fabric_.hosts.size() + out, 0);
      go(fabric_.hosts.size() + in, 1);
    }
    go(message.to, 1);
  }

  void send(double now, const Way& way, std::uint32_t chunk, double ratio = 1.0) {
    if (spare_.empty()) spare_.push_back(&messages_.emplace_back());
    Message& message = *spare_.back();
    spare_.pop_back();
    const double bytes = ratio * (chunk + 1 < chunks_ ? chunk_bytes_ : last_chunk_bytes_);
    const auto packets = static_cast<std::uint32_t>(std::ceil(bytes / packet_bytes_));
    message = {.kind = way.kind,
               .chunk = chunk,
               .from = way.from,
               .to = way.to,
               .from_worker = way.from_worker,
               .to_worker = way.to_worker,
               .packets_here = packets,
               .packets_left = packets};
    set_ways(message);
    for (std::uint32_t i = 0; i < packets; ++i) {
      packets_.push(
          {now + (message.hops > 0 ? latency_ : 0.0), order_++, bytes / packets, &message, 0});
    }
  }

  void push(std::size_t worker, std::uint32_t chunk, double now) {
    const std::size_t server = plan_.server_of(chunk, plan_.rack_of(worker));
    send(now, {.kind = Kind::kSum, .from = worker, .to = server, .from_worker = true}, chunk);
  }

  // Through its next link.
  void pass(Packet packet) {
    Message& message = *packet.message;
    double leaves = packet.comes;
    if (message.hops > 0) {
      const std::size_t way = message.ways[packet.hop];
      const double rate = fabric_.links[way / 2].mbit * kBytesOfMbit * payload_share_;
      leaves = free_[way] = std::max(packet.comes, free_[way]) + packet.bytes / rate;
    }
    const bool is_first = packet.hop == 0;
    if (is_first && --message.packets_here == 0 && message.from_worker &&
        message.chunk + 1 < chunks_) {
      push(message.from, message.chunk + 1, leaves);
    }
    if (++packet.hop < message.hops) {
      packet.comes = leaves;
      packet.order = order_++;
      packets_.push(packet);
    } else if (--message.packets_left == 0) {
      arrive(message, leaves);
      spare_.push_back(&message);
    }
  }

  void arrive(const Message& message, double now) {
    const std::uint32_t chunk = message.chunk;
    const std::size_t server = message.to;
    if (message.to_worker) {
      last_reply_ = std::max(last_reply_, now);
      return;
    }
    const std::uint32_t rack = plan_.rack_of(server);
    if (message.kind == Kind::kSum) {
      if (--waits_for(chunk, rack) > 0) return;
      const std::uint32_t above = plan_.above(chunk, rack);
      if (above != RackTree::kNone) {
        const std::size_t to = plan_.server_of(chunk, above);
        send(now, {.kind = Kind::kSum, .from = server, .to = to}, chunk, sum_ratio_);
        return;
      }
    }
    reply(chunk, server, now);
  }

  // To the racks below and to the own rack's workers.
  void reply(std::uint32_t chunk, std::size_t server, double now) {
    const std::uint32_t own = plan_.rack_of(server);
    for (std::uint32_t rack = 0; rack < plan_.racks(); ++rack) {
      if (plan_.above(chunk, rack) != own) continue;
      const std::size_t to = plan_.server_of(chunk, rack);
      send(now, {.kind = Kind::kReply, .from = server, .to = to}, chunk);
    }
    for (const std::size_t worker : plan_.workers()) {
      if (plan_.rack_of(worker) != own) continue;
      send(now, {.kind = Kind::kReply, .from = server, .to = worker, .to_worker = true}, chunk);
    }
  }

  const Fabric& fabric_;
  const std::uint32_t chunks_;
  const ChunkPlan plan_;
  const double sum_ratio_;
  const double payload_share_;  // of a frame
  const double latency_;        // seconds until what is sent leaves
  double chunk_bytes_ = 0.0;
  double last_chunk_bytes_ = 0.0;
  double packet_bytes_ = 0.0;             // at most
  std::vector<std::uint32_t> waits_for_;  // pushes, by chunk and rack
  std::vector<double> free_;              // since when; links' ways: up, then down
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> packets_;
  std::uint64_t order_ = 0;
  std::deque<Message> messages_;
  std::vector<Message*> spare_;
  double last_reply_ = 0.0;
};

}  // namespace

double modelled_seconds(const RackScenario& scenario, const Fabric& fabric) {
  return RoundModel(scenario, fabric).seconds();
}

}  // namespace phub::bench
