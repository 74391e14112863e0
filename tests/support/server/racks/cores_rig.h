// Racks whose servers have any number of cores, joined over streams, and their workers, all driven
// from one thread.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "common/protocol/wire.h"
#include "kernels/reduce.h"
#include "server/core/core.h"
#include "tests/support/nested_names.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::testing {

struct CoresOptions {
  std::vector<std::uint32_t> cores = {1, 1};  // by rack
  std::vector<std::uint32_t> workers = {2, 1};
  RackShape shape = RackShape::kSpread;
  RuleKind rule = RuleKind::kMomentum;
  DataType wire_type = DataType::kFloat32;
  LossScale loss_scale = {};
  RackCompress rack_compress = {};
  RackLocal rack_local = {};
  std::uint32_t keys = 14;
};

// A worker's end: what it pushes and has, laid out as the plan, which differs in cores only.
class CoresWorker final : public transport::ReceiveBuffers {
 public:
  CoresWorker(const Plan& plan, DataType wire_type, std::uint32_t epoch,
              std::vector<transport::TcpStream> streams)
      : plan_(plan), epoch_(epoch), width_(size_of(wire_type)), hypers_(streams.size()) {
    gradients.resize(plan.arena_elements * width_);
    parameters.resize(plan.arena_elements * width_);
    endpoint_ = std::move(*transport::TcpEndpoint::create(
        {.max_peers = static_cast<std::uint32_t>(streams.size())}, *this));
    for (auto& stream : streams) peers_.push_back(*endpoint_->add(std::move(stream)));
  }

  void push(std::uint32_t id) {
    const Chunk& chunk = plan_.chunks[id];
    send(chunk.core, gradients.data() + chunk.arena_offset * width_,
         static_cast<std::uint32_t>(chunk.elements * width_), chunk.slot);
  }
  void say(const Hyper& hyper) {
    for (std::uint32_t core = 0; core < peers_.size(); ++core) {
      hypers_[core] = hyper;
      send(core, &hypers_[core], sizeof(Hyper), wire::kHyperSlot);
    }
  }
  void vote(const Vote& vote) {
    vote_ = vote;
    for (std::uint32_t core = 0; core < peers_.size(); ++core) {
      send(core, &vote_, sizeof(Vote), wire::kVoteSlot);
    }
  }
  bool has_room() const {
    return std::ranges::all_of(peers_, [&](auto peer) { return endpoint_->room(peer) > 0; });
  }
  void poll() {
    std::array<transport::Completion, 64> batch;  // NOLINT(*-member-init): filled below
    const std::size_t count = endpoint_->poll(batch);
    for (std::size_t i = 0; i < count; ++i) {
      is_lost = is_lost || batch[i].kind == transport::CompletionKind::kPeerLost;
      if (batch[i].kind == transport::CompletionKind::kArrived) ++replies;
    }
  }

  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t) override {
    const auto core = static_cast<std::size_t>(std::ranges::find(peers_, peer) - peers_.begin());
    const std::uint32_t id = plan_.core_chunks[0][core].at(wire::reply_slot_of(immediate));
    return parameters.data() + plan_.chunks[id].arena_offset * width_;
  }
  void release(transport::PeerId, std::byte*) override {}

  std::vector<std::byte> gradients;
  std::vector<std::byte> parameters;
  std::size_t replies = 0;
  bool is_lost = false;

 private:
  void send(std::uint32_t core, const void* data, std::uint32_t bytes, std::uint32_t slot) {
    const transport::Write write{static_cast<const std::byte*>(data), bytes,
                                 wire::immediate(slot, epoch_)};
    PHUB_CHECK(endpoint_->post(peers_[core], {&write, 1}) == 1, "room for a write");
  }

  const Plan& plan_;
  const std::uint32_t epoch_;
  const std::size_t width_;
  std::unique_ptr<transport::TcpEndpoint> endpoint_;
  std::vector<transport::PeerId> peers_;  // by core
  std::vector<Hyper> hypers_;
  Vote vote_;
};

class CoresRig {
 public:
  explicit CoresRig(const CoresOptions& options) : options_(options) {
    for (std::uint32_t rack = 0; rack < racks(); ++rack) add_rack(rack);
    for (std::uint32_t from = 0; from < racks(); ++from) {
      for (std::uint32_t to = 0; to < racks(); ++to) {
        if (from != to) connect(from, to);
      }
    }
  }
  ~CoresRig() {
    for (Rack& rack : racks_) {
      for (std::size_t core = 0; core < rack.cores.size(); ++core) {
        rack.cores[core]->attachments().detach(rack.jobs[core].get());
      }
    }
  }
  CoresRig(const CoresRig&) = delete;
  CoresRig& operator=(const CoresRig&) = delete;

  std::uint32_t racks() const { return static_cast<std::uint32_t>(options_.cores.size()); }
  const Plan& plan(std::uint32_t rack) const { return *racks_[rack].layout.plan; }
  const server::JobLayout& layout(std::uint32_t rack) const { return racks_[rack].layout; }
  server::Core& core(std::uint32_t rack, std::uint32_t core) { return *racks_[rack].cores[core]; }
  server::JobOnCore& job(std::uint32_t rack, std::uint32_t core) {
    return *racks_[rack].jobs[core];
  }
  const CoresWorker& worker(std::uint32_t rack, std::uint32_t index) const {
    return *racks_[rack].workers[index];
  }

  void randomise(std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for_each([&](CoresWorker& each) {
      std::vector<float> wide(racks_[0].layout.plan->arena_elements);
      for (float& value : wide) value = uniform(random);
      kernels::convert(each.gradients.data(), options_.wire_type,
                       reinterpret_cast<const std::byte*>(wide.data()), DataType::kFloat32,
                       wide.size());
    });
  }
  void say(const Hyper& hyper) { racks_[0].workers[0]->say(hyper); }
  // Everybody pushes everything in an order of its own, votes if the job does, and takes replies.
  void round(std::mt19937& random, float scale = 1.0F) {
    std::vector<std::uint32_t> order(plan(0).chunks.size());
    std::iota(order.begin(), order.end(), 0U);
    const bool votes = options_.loss_scale.kind == LossScaling::kVoted && rounds_ > 0;
    for_each([&](CoresWorker& each) {
      std::shuffle(order.begin(), order.end(), random);
      for (const std::uint32_t id : order) {
        while (!each.has_room()) run_once();
        each.push(id);
      }
      if (votes) each.vote({.loss_scale = scale});
    });
    ++rounds_;
    for (int idle = 0; idle < 1000 && !are_replied(); ++idle) {
      if (run_once()) idle = 0;
    }
    PHUB_CHECK(are_replied(), "every worker has its replies");
  }
  bool run_once() {
    bool any = false;
    for (Rack& rack : racks_) {
      for (auto& core : rack.cores) any = core->run_once() || any;
    }
    for_each([](CoresWorker& each) { each.poll(); });
    return any;
  }
  template <typename Do>
  void for_each(Do todo) {
    for (Rack& rack : racks_) {
      for (auto& each : rack.workers) todo(*each);
    }
  }

 private:
  struct Rack {
    server::JobLayout layout;
    std::shared_ptr<server::JobMemory> memory;
    std::vector<std::unique_ptr<server::JobOnCore>> jobs;  // by core
    std::vector<std::unique_ptr<server::Core>> cores;
    std::vector<std::unique_ptr<CoresWorker>> workers;
    std::map<std::uint32_t, std::vector<server::CoreRoute>> routes;  // to racks with other cores
  };

  std::shared_ptr<const Plan> plan_of(std::uint32_t cores, std::uint32_t trees) const {
    PlanInput input;
    for (std::uint32_t key = 0; key < options_.keys; ++key) {
      input.key_elements.push_back(key % 3 == 0 ? 5000 : 900 + 10 * key);
    }
    input.wire_type = options_.wire_type;
    input.chunk_bytes = 4096;
    input.cores_per_server = {cores};
    input.whole_keys = needs_whole_keys(options_.rule);
    input.rack_trees = trees;
    input.small_key_trees = small_key_trees(racks(), options_.shape);
    input.small_key_bytes = 4000;
    return std::make_shared<const Plan>(std::move(*make_plan(input)));
  }

  void add_rack(std::uint32_t index) {
    Rack& rack = racks_.emplace_back();
    const auto trees = make_rack_trees(nested_names(racks()), options_.shape);
    server::JobLayout& layout = rack.layout;
    layout.job_id = 100 + index;
    layout.epoch = 3 + index;
    layout.workers = options_.workers[index];
    layout.job_workers = std::accumulate(options_.workers.begin(), options_.workers.end(), 0U);
    layout.wire_type = options_.wire_type;
    layout.rule = options_.rule;
    layout.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
    layout.weight_decay.assign(options_.keys, 0.01F);
    layout.lars = {.coefficient = 0.02F, .epsilon = 1e-6F};
    layout.loss_scale = options_.loss_scale;
    layout.plan = plan_of(options_.cores[index], static_cast<std::uint32_t>(trees.size()));
    layout.rack_compress = options_.rack_compress;
    layout.rack_local = options_.rack_local;
    layout.rack = {racks(), index, trees};
    rack.memory = std::move(*server::JobMemory::create(layout));
    for (std::uint32_t core = 0; core < options_.cores[index]; ++core) {
      rack.jobs.push_back(std::move(*server::JobOnCore::create(layout, core, rack.memory)));
      server::CoreOptions options;
      options.own_thread = false;
      rack.cores.push_back(std::move(*server::Core::create(options)));
    }
    for (std::uint32_t i = 0; i < layout.workers; ++i) {
      std::vector<transport::TcpStream> streams;
      for (std::size_t core = 0; core < rack.cores.size(); ++core) {
        auto [own, cores] = transport::stream_pair();
        server::Attachments& at = rack.cores[core]->attachments();
        PHUB_CHECK(at.connect_tcp(rack.jobs[core].get(), i, std::move(cores)).ok(), "tcp");
        streams.push_back(std::move(own));
      }
      rack.workers.push_back(std::make_unique<CoresWorker>(*layout.plan, options_.wire_type,
                                                           layout.epoch, std::move(streams)));
    }
    for (std::uint32_t other = 0; other < racks(); ++other) {
      if (other == index || options_.cores[other] == options_.cores[index]) continue;
      rack.routes[other] = server::make_rack_routes(layout, other, options_.cores[other]);
    }
  }

  // As the servers do: a core's connections go to the peers of its route, as streams there.
  void connect(std::uint32_t from, std::uint32_t to) {
    Rack& below = racks_[from];
    Rack& above = racks_[to];
    const std::uint32_t seat = above.layout.rack.seat_of(from, above.layout.workers);
    const bool are_alike = below.cores.size() == above.cores.size();
    std::map<std::uint32_t, std::map<std::uint32_t, transport::TcpStream>> arriving;
    for (std::uint32_t core = 0; core < below.cores.size(); ++core) {
      const server::CoreRoute* const route = are_alike ? nullptr : &below.routes[to][core];
      const std::size_t peers = are_alike ? 1 : route->peers.size();
      for (std::uint32_t peer = 0; peer < peers; ++peer) {
        auto [own, other] = transport::stream_pair();
        const server::RackAbove target{to, above.layout.epoch, route, peer};
        PHUB_CHECK(below.cores[core]
                       ->attachments()
                       .connect_rack(below.jobs[core].get(), target, std::move(own))
                       .ok(),
                   "above");
        const auto there = are_alike ? core : route->peers[peer].core;
        const auto stream = are_alike ? 0 : route->peers[peer].stream;
        PHUB_CHECK(arriving[there].emplace(stream, std::move(other)).second, "a stream of its own");
      }
    }
    PHUB_CHECK(arriving.size() == above.cores.size(), "each core there is connected");
    for (auto& [core, by_index] : arriving) {
      std::vector<transport::TcpStream> streams;
      for (auto& [index, stream] : by_index) {
        PHUB_CHECK(index == streams.size(), "no stream is missing");
        streams.push_back(std::move(stream));
      }
      const server::CoreRoute* const route = are_alike ? nullptr : &above.routes[from][core];
      PHUB_CHECK(are_alike || route->peers.size() == streams.size(), "both ends count alike");
      PHUB_CHECK(above.cores[core]
                     ->attachments()
                     .connect_tcp(above.jobs[core].get(), seat, std::move(streams), route)
                     .ok(),
                 "below");
    }
  }

  bool are_replied() {
    bool all = true;
    for_each([&](const CoresWorker& each) {
      all = all && each.replies >= rounds_ * plan(0).chunks.size();
    });
    return all;
  }

  const CoresOptions options_;
  std::vector<Rack> racks_;
  std::size_t rounds_ = 0;
};

}  // namespace phub::testing
