// Racks of one core each, joined over streams, and their workers, all driven from one thread.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "common/protocol/wire.h"
#include "kernels/reduce.h"
#include "server/core/core.h"
#include "tests/support/hang_guard.h"
#include "tests/support/nested_names.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::testing {

struct RacksOptions {
  std::vector<std::uint32_t> workers = {2, 2};  // by rack
  RackShape shape = RackShape::kSpread;
  RuleKind rule = RuleKind::kSum;
  DataType wire_type = DataType::kFloat32;
  DataType rack_wire_type = DataType::kFloat32;
  LossScale loss_scale = {};
  transport::EndpointFront tcp_front = {};  // with one rounds may be idle for a time
  std::uint32_t keys = 24;
  std::uint32_t key_elements = 1024;  // of kHybrid every second key has twice as many, and is large
  bool has_stranger = false;          // rack 0 takes for rack 2 what says only what a test says:
                                      // where it is above, and where it is below
  RackCompress rack_compress = {};
  RackLocal rack_local = {};
  RoundPolicy rounds = {};  // of a rack's workers
  bool deterministic = true;
  double ema_decay = 0.0;
  float clip_norm = 0.0F;
  float weight_decay = 0.01F;
  TickSource* time = nullptr;  // of all cores; null: the machine's
  std::vector<std::shared_ptr<const server::JobCopy>> initial = {};  // by rack; empty: a new job
};

// A worker's end: pushes from `gradients`, replies land in `parameters`, both laid out as the plan.
class RacksWorker final : public transport::ReceiveBuffers {
 public:
  RacksWorker(const Plan& plan, DataType wire_type, transport::TcpStream stream)
      : plan_(plan), width_(size_of(wire_type)) {
    gradients.resize(plan.arena_elements * width_);
    parameters.resize(plan.arena_elements * width_);
    replies_of.resize(plan.chunks.size());
    endpoint_ = std::move(*transport::TcpEndpoint::create({.max_peers = 1}, *this));
    peer_ = *endpoint_->add(std::move(stream));
  }

  void push(std::uint32_t slot, std::uint32_t epoch) {
    const Chunk& chunk = plan_.chunks[slot];
    send(gradients.data() + chunk.arena_offset * width_,
         static_cast<std::uint32_t>(chunk.elements * width_), wire::immediate(slot, epoch));
  }
  void send(const void* data, std::uint32_t bytes, std::uint32_t immediate) {
    const transport::Write write{static_cast<const std::byte*>(data), bytes, immediate};
    PHUB_CHECK(endpoint_->post(peer_, {&write, 1}) == 1, "room for a write");
  }
  bool has_room() const { return endpoint_->room(peer_) > 0; }
  // Takes what is there.
  void poll() {
    std::array<transport::Completion, 64> batch;  // NOLINT(*-member-init): filled below
    const std::size_t count = endpoint_->poll(batch);
    for (std::size_t i = 0; i < count; ++i) {
      is_lost = is_lost || batch[i].kind == transport::CompletionKind::kPeerLost;
      if (batch[i].kind != transport::CompletionKind::kArrived) continue;
      ++replies;
      ++replies_of[wire::reply_slot_of(batch[i].immediate)];
      if (wire::was_skipped(batch[i].immediate)) ++skipped;
    }
  }

  std::byte* acquire(transport::PeerId, std::uint32_t immediate, std::uint32_t) override {
    return parameters.data() + plan_.chunks[wire::reply_slot_of(immediate)].arena_offset * width_;
  }
  void release(transport::PeerId, std::byte*) override {}

  std::vector<std::byte> gradients;
  std::vector<std::byte> parameters;
  Hyper hyper;
  Vote vote;
  std::size_t replies = 0;
  std::vector<std::uint32_t> replies_of;  // by slot
  std::size_t skipped = 0;
  bool is_lost = false;

 private:
  const Plan& plan_;
  const std::size_t width_;
  std::unique_ptr<transport::TcpEndpoint> endpoint_;
  transport::PeerId peer_ = 0;
};

class RacksRig {
 public:
  explicit RacksRig(const RacksOptions& options) : options_(options) {
    PlanInput input;
    input.key_elements.assign(options.keys, options.key_elements);
    input.wire_type = options.wire_type;
    input.chunk_bytes = 4096;
    input.cores_per_server = {1};
    input.whole_keys = needs_whole_keys(options.rule);
    trees = make_rack_trees(nested_names(racks()), options.shape);
    input.rack_trees = static_cast<std::uint32_t>(trees.size());
    input.small_key_trees = small_key_trees(racks(), options.shape);
    input.small_key_bytes = options.key_elements * size_of(options.wire_type);
    for (std::uint32_t key = 1; input.small_key_trees > 0 && key < options.keys; key += 2) {
      input.key_elements[key] *= 2;
    }
    plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    for (std::uint32_t rack = 0; rack < racks(); ++rack) add_rack(rack);
    for (std::uint32_t from = 0; from < racks(); ++from) {
      for (std::uint32_t to = 0; to < racks(); ++to) {
        if (from != to) connect(from, to);
      }
    }
  }
  ~RacksRig() {
    for (Rack& rack : racks_) rack.core->attachments().detach(rack.on_core.get());
  }
  RacksRig(const RacksRig&) = delete;
  RacksRig& operator=(const RacksRig&) = delete;

  std::uint32_t racks() const { return static_cast<std::uint32_t>(options_.workers.size()); }
  RacksWorker& worker(std::uint32_t rack, std::uint32_t index) {
    return *racks_[rack].workers[index];
  }
  std::uint32_t workers(std::uint32_t rack) const { return options_.workers[rack]; }
  // Of another rack's server in `rack`.
  std::uint32_t seat(std::uint32_t rack, std::uint32_t other) const {
    return racks_[rack].layout.rack.seat_of(other, racks_[rack].layout.workers);
  }
  server::JobOnCore& job(std::uint32_t rack) { return *racks_[rack].on_core; }
  server::Core& core(std::uint32_t rack) { return *racks_[rack].core; }
  // The moving average of a chunk, as the rack has it.
  std::vector<float> average(std::uint32_t rack, const Chunk& chunk) const {
    const server::JobMemory& memory = *racks_[rack].memory;
    const float* const from = memory.optimizer_state() +
                              state_arrays(options_.rule) * memory.arena.elements() +
                              memory.arena.at(chunk.arena_offset);
    return {from, from + chunk.elements};
  }

  void push(std::uint32_t rack, std::uint32_t slot) {
    for (auto& each : racks_[rack].workers) each->push(slot, epoch(rack));
  }
  // Any bytes, which are there until they have been sent.
  void reply_as_stranger(std::uint32_t slot, std::span<const std::byte> bytes) {
    stranger_->send(bytes.data(), static_cast<std::uint32_t>(bytes.size()),
                    wire::reply(slot, epoch(2), /*is_skipped=*/false));
  }
  // A part of what a worker sends, which ends anywhere.
  void send_as_worker(std::uint32_t rack, std::uint32_t index, std::span<const std::byte> bytes) {
    const int socket = racks_[rack].sockets[index].get();
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    PHUB_CHECK(sent == static_cast<ssize_t>(bytes.size()), "room in the worker's stream");
  }
  // A part of what it sends, which ends anywhere.
  void send_as_stranger(std::span<const std::byte> bytes) {
    const auto sent = ::send(stranger_socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    PHUB_CHECK(sent == static_cast<ssize_t>(bytes.size()), "room in the stranger's stream");
  }
  // `slot`: a chunk's, or a control word's.
  void push_as_stranger(std::uint32_t slot, std::span<const std::byte> bytes) {
    stranger_below_->send(bytes.data(), static_cast<std::uint32_t>(bytes.size()),
                          wire::immediate(slot, epoch(0)));
  }
  // Of zeros.
  void reply_as_stranger(std::uint32_t slot) {
    const Chunk& chunk = plan->chunks[slot];
    stranger_->send(stranger_->gradients.data() + chunk.arena_offset * size_of(options_.wire_type),
                    static_cast<std::uint32_t>(chunk.elements * size_of(options_.wire_type)),
                    wire::reply(slot, epoch(2), /*is_skipped=*/false));
  }

  // Everybody pushes everything, and takes the replies.
  void round() {
    push_all();
    finish();
  }
  void push_all() {
    for_each([&](std::uint32_t rack, RacksWorker& each) {
      for (std::uint32_t slot = 0; slot < plan->chunks.size(); ++slot) {
        while (!each.has_room()) run_once();
        each.push(slot, epoch(rack));
      }
    });
  }
  void finish() {
    expected_replies_ += plan->chunks.size();
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    const auto is_hopeless = [&](int idle) {
      if (!options_.tcp_front) return idle >= 1000;
      return std::chrono::steady_clock::now() > deadline;
    };
    for (int idle = 0; !is_hopeless(idle) && !are_replied(); ++idle) {
      if (run_once()) idle = 0;
    }
    PHUB_CHECK(are_replied(), "every worker has its replies");
  }
  bool run_once() {
    bool any = false;
    for (Rack& rack : racks_) any = rack.core->run_once() || any;
    for_each([](std::uint32_t, RacksWorker& each) { each.poll(); });
    return any;
  }
  void send_hyper(const Hyper& hyper) {
    RacksWorker& leader = worker(0, 0);
    leader.hyper = hyper;
    leader.send(&leader.hyper, sizeof(Hyper), wire::immediate(wire::kHyperSlot, epoch(0)));
  }
  void vote_all(float scale, std::uint32_t rack_against = ~0U) {
    for_each([&](std::uint32_t rack, RacksWorker& each) {
      each.vote = {.loss_scale = scale, .overflow = rack == rack_against ? 1U : 0U};
      each.send(&each.vote, sizeof(Vote), wire::immediate(wire::kVoteSlot, epoch(rack)));
    });
  }
  template <typename Do>
  void for_each(Do todo) {
    for (std::uint32_t rack = 0; rack < racks(); ++rack) {
      for (auto& each : racks_[rack].workers) todo(rack, *each);
    }
  }
  static std::uint32_t epoch(std::uint32_t rack) { return 3 + rack; }

  // The documented fold, by one process: of a rack's workers in their order, then of racks in
  // theirs, up the chunk's tree.
  std::vector<float> fold(const Chunk& chunk, std::uint32_t rack) const {
    std::vector<float> sum;
    const auto add = [&](const std::vector<float>& other) {
      if (sum.empty()) return sum = other, void();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    };
    for (std::uint32_t other = 0; other < racks(); ++other) {
      if (other == rack) add(fold_workers(chunk, rack));
      if (trees[chunk.tree].parent[other] == rack) add(fold(chunk, other));
    }
    return sum;
  }
  std::uint32_t root(const Chunk& chunk) const {
    std::uint32_t rack = 0;
    while (trees[chunk.tree].parent[rack] != RackTree::kNone) rack = trees[chunk.tree].parent[rack];
    return rack;
  }
  std::vector<float> values(const std::vector<std::byte>& arena, const Chunk& chunk) const {
    std::vector<float> wide(chunk.elements);
    kernels::convert(reinterpret_cast<std::byte*>(wide.data()), DataType::kFloat32,
                     arena.data() + chunk.arena_offset * size_of(options_.wire_type),
                     options_.wire_type, chunk.elements);
    return wide;
  }
  void randomise(std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for_each([&](std::uint32_t, RacksWorker& each) {
      std::vector<float> wide(plan->arena_elements);
      for (float& value : wide) value = uniform(random);
      kernels::convert(each.gradients.data(), options_.wire_type,
                       reinterpret_cast<const std::byte*>(wide.data()), DataType::kFloat32,
                       wide.size());
    });
  }

  std::vector<float> fold_workers(const Chunk& chunk, std::uint32_t rack) const {
    std::vector<float> sum;
    for (const auto& each : racks_[rack].workers) {
      const std::vector<float> pushed = values(each->gradients, chunk);
      if (sum.empty()) {
        sum = pushed;
      } else {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += pushed[i];
      }
    }
    return sum;
  }

  std::shared_ptr<const Plan> plan;
  std::vector<RackTree> trees;

 private:
  struct Rack {
    server::JobLayout layout;
    std::shared_ptr<server::JobMemory> memory;
    std::unique_ptr<server::JobOnCore> on_core;
    std::unique_ptr<server::Core> core;
    std::vector<std::unique_ptr<RacksWorker>> workers;
    std::vector<UniqueFd> sockets;  // of the workers
  };

  void add_rack(std::uint32_t index) {
    Rack& rack = racks_.emplace_back();
    rack.layout.job_id = 100 + index;
    rack.layout.epoch = epoch(index);
    rack.layout.workers = options_.workers[index];
    rack.layout.wire_type = options_.wire_type;
    rack.layout.rule = options_.rule;
    rack.layout.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
    rack.layout.weight_decay.assign(options_.keys, options_.weight_decay);
    rack.layout.lars = {.coefficient = 0.02F, .epsilon = 1e-6F};
    rack.layout.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
    rack.layout.loss_scale = options_.loss_scale;
    rack.layout.plan = plan;
    rack.layout.rack_wire_type = options_.rack_wire_type;
    rack.layout.rack_compress = options_.rack_compress;
    rack.layout.rack_local = options_.rack_local;
    rack.layout.rounds = options_.rounds;
    rack.layout.deterministic = options_.deterministic;
    rack.layout.ema_decay = options_.ema_decay;
    rack.layout.clip_norm = options_.clip_norm;
    rack.layout.job_workers = std::accumulate(options_.workers.begin(), options_.workers.end(), 0U);
    if (!options_.initial.empty()) rack.layout.initial = options_.initial[index];
    if (racks() > 1) rack.layout.rack = {racks(), index, trees};
    rack.memory = std::move(*server::JobMemory::create(rack.layout));
    rack.on_core = std::move(*server::JobOnCore::create(rack.layout, 0, rack.memory));
    server::CoreOptions options;
    options.own_thread = false;
    options.tcp_front = options_.tcp_front;
    if (options_.time != nullptr) options.time = options_.time;
    rack.core = std::move(*server::Core::create(options));
    for (std::uint32_t i = 0; i < options_.workers[index]; ++i) {
      auto [own, cores] = transport::stream_pair();
      PHUB_CHECK(rack.core->attachments().connect_tcp(rack.on_core.get(), i, std::move(cores)).ok(),
                 "tcp");
      rack.sockets.emplace_back(::dup(own.get()));
      rack.workers.push_back(
          std::make_unique<RacksWorker>(*plan, options_.wire_type, std::move(own)));
    }
  }

  void connect(std::uint32_t from, std::uint32_t to) {
    auto [own, other] = transport::stream_pair();
    Rack& below = racks_[from];
    Rack& above = racks_[to];
    const std::uint32_t seat = above.layout.rack.seat_of(from, above.layout.workers);
    if (options_.has_stranger && from == 0 && to == 2) {
      stranger_socket_.reset(::dup(other.get()));
      stranger_ = std::make_unique<RacksWorker>(*plan, options_.wire_type, std::move(other));
    } else {
      PHUB_CHECK(
          above.core->attachments().connect_tcp(above.on_core.get(), seat, std::move(other)).ok(),
          "below");
    }
    if (options_.has_stranger && from == 2 && to == 0) {
      stranger_below_ = std::make_unique<RacksWorker>(*plan, options_.wire_type, std::move(own));
      return;
    }
    PHUB_CHECK(below.core->attachments()
                   .connect_rack(below.on_core.get(), {to, epoch(to)}, std::move(own))
                   .ok(),
               "above");
  }

  bool are_replied() {
    bool all = true;
    for_each([&](std::uint32_t, const RacksWorker& each) {
      all = all && each.replies >= expected_replies_;
    });
    return all;
  }

  const RacksOptions options_;
  std::vector<Rack> racks_;
  UniqueFd stranger_socket_;
  std::unique_ptr<RacksWorker> stranger_;
  std::unique_ptr<RacksWorker> stranger_below_;
  std::size_t expected_replies_ = 0;
};

}  // namespace phub::testing
