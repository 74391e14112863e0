// One core with the workers of a job, all driven from one thread: rounds without a daemon.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/crc32c.h"
#include "common/protocol/wire.h"
#include "common/transport/verbs/registered.h"
#include "server/core/core.h"
#include "server/plane/windows/verbs_memory.h"
#include "tests/support/transports/endpoint_pair.h"
#include "tests/support/transports/rdma_devices.h"

namespace phub::testing {

using namespace transport;  // NOLINT(google-build-using-namespace): what the rig is made of

struct RigWorker final : ReceiveBuffers, Layout, Checksums {
  static constexpr std::uint32_t kChunks = 64;
  static constexpr std::uint32_t kChunkBytes = 4096;

  static constexpr std::size_t kLines = wire::hyper_bytes(1);

  static constexpr std::size_t kArena = 2 * std::size_t{kChunks} * kChunkBytes;
  static constexpr std::size_t kChecksums = kLines + std::size_t{kChunks} * kChunkBytes;

  // A line for each core, then the chunks of two servers, or of one and then their checksums.
  std::unique_ptr<SharedMemory> gradients =
      std::move(*SharedMemory::create("gradients", kLines + kArena));
  // Of two servers at most, with norms; then what changed of them.
  std::unique_ptr<Mapping> parameters = std::move(*Mapping::anonymous(2 * kArena + kLines));
  std::size_t window_bytes = 2 * kArena + kLines;  // of these, what a device may write to
  std::shared_ptr<verbs::Registered> registered;
  std::shared_ptr<const WindowLayout> landing;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer = 0;

  std::byte* acquire(PeerId, std::uint32_t immediate, std::uint32_t) override {
    const bool is_norm = wire::slot_of(immediate) == wire::kNormSlot;
    return parameters->data() + (is_norm ? kArena : 0);
  }
  void release(PeerId, std::byte*) override {}
  std::uint64_t offset(PeerId, const Write& write) const override {
    const std::uint32_t slot = wire::slot_of(write.immediate);
    return wire::is_control(slot) ? wire::offset_in_line(slot) : landing->slots[slot];
  }
  std::uint32_t* checksums() const {
    return reinterpret_cast<std::uint32_t*>(gradients->data() + kChecksums);
  }
  const std::uint32_t* checksum(PeerId, std::uint32_t immediate) const override {
    const std::uint32_t slot = wire::slot_of(immediate);
    return wire::is_control(slot) ? nullptr : checksums() + slot;
  }
  std::span<std::byte> chunk(std::uint32_t slot) const {
    return {gradients->data() + kLines + slot * kChunkBytes, kChunkBytes};
  }
  // Of each chunk, as it is now.
  void sum_up() const {
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) checksums()[slot] = crc32c(chunk(slot));
  }
};

// Whether replies may have what changed alone.
struct RigReplies {
  RuleKind rule = RuleKind::kNesterov;
  bool have_place = true;  // in windows, beside the parameters
};

class CoreRig {
 public:
  static constexpr std::uint32_t kWorkers = 4;
  static constexpr std::uint32_t kChunks = RigWorker::kChunks;

  // "shm" or "verbs", on the executable's RDMA devices; "all": as many workers over each transport,
  // tcp too, as the core has connections for. With a clip_norm the job has another server with as
  // many chunks, whose part of the norm the test tells.
  explicit CoreRig(const std::string& transport, const LossScale& loss_scale = {},
                   Encoding encoding = Encoding::kDense, float clip_norm = 0.0F,
                   bool checksums = false, const RigReplies& replies = {}) {
    PlanInput input;
    const std::uint32_t servers = clip_norm > 0.0F ? 2 : 1;
    input.key_elements = {servers * kChunks * kChunkBytes / sizeof(float)};
    input.chunk_bytes = kChunkBytes;
    input.cores_per_server.assign(servers, 1);
    layout_.clip_norm = clip_norm;
    const bool all = transport == "all";
    layout_.workers = all ? 3 * kOfEach : kWorkers;
    layout_.rule = replies.rule;
    layout_.weight_decay = {0.0F};
    layout_.loss_scale = loss_scale;
    layout_.encoding = encoding;
    layout_.checksums = checksums;
    layout_.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    places_ = make_shared_window_layout(*layout_.plan, 0, 0, sizeof(float)).slots;
    PHUB_CHECK(places_.size() == kChunks, "as many on each server");
    job_ = std::move(*server::JobMemory::create(layout_));
    on_core_ = std::move(*server::JobOnCore::create(layout_, 0, job_));
    const auto& device = rdma_devices().front();
    server::CoreOptions options;
    options.max_connections = all ? kOfEach : kWorkers;
    options.device = device;
    options.own_thread = false;
    core_ = std::move(*server::Core::create(options));
    memory_ = std::move(*server::VerbsMemory::create(device, job_, layout_, {0}));
    workers_.resize(layout_.workers);
    for (std::uint32_t w = 0; w < layout_.workers; ++w) {
      workers_[w] = std::make_unique<RigWorker>();
      if (!replies.have_place) workers_[w]->window_bytes = RigWorker::kArena / 2;
      const std::string transports[] = {"shm", "verbs", "tcp"};
      connect(w, all ? transports[w % 3] : transport);
    }
  }
  ~CoreRig() { core_->attachments().detach(on_core_.get()); }
  CoreRig(const CoreRig&) = delete;
  CoreRig& operator=(const CoreRig&) = delete;

  // Every worker pushes every chunk, and takes the replies.
  void round() {
    push_all(layout_.epoch);
    take_replies();
  }
  // With a clip_norm: every worker pushes every chunk, and is asked for the norm; what is told to
  // it. Nobody answers yet.
  std::vector<double> ask() {
    push_all(layout_.epoch);
    std::vector<double> parts;
    for (auto& worker : workers_) {
      std::vector<Completion> batch(kChunks);
      const std::size_t count = worker->endpoint->poll(batch);
      PHUB_CHECK(count == 1 && wire::slot_of(batch[0].immediate) == wire::kNormSlot, "a norm");
      PHUB_CHECK(batch[0].bytes == sizeof(double), "its size");
      std::memcpy(&parts.emplace_back(), batch[0].data, sizeof(double));
    }
    return parts;
  }
  // One worker tells the norm; the core takes what there is.
  void send_norm(std::uint32_t worker, double squares, std::uint32_t bytes = sizeof(double)) {
    std::byte* const place = workers_[worker]->gradients->data() + wire::kNormOffset;
    std::memcpy(place, &squares, sizeof(squares));
    send(worker, {.data = place,
                  .bytes = bytes,
                  .immediate = wire::immediate(wire::kNormSlot, layout_.epoch)});
  }
  // The same as workers of another epoch would; nobody waits for replies.
  void stale_round() { push_all(layout_.epoch + 1); }
  // Every worker pushes one chunk; the core does not run.
  void push_chunk(std::uint32_t slot) {
    for (auto& worker : workers_) push_one(*worker, slot, layout_.epoch);
  }
  // One worker sends `vote`, and what follows it in its memory, as a vote; the core takes what
  // there is.
  void send_vote(std::uint32_t worker, const Vote& vote, std::uint32_t bytes = sizeof(Vote),
                 std::uint32_t epochs_ahead = 0) {
    std::byte* const place = workers_[worker]->gradients->data() + wire::kVoteOffset;
    std::memcpy(place, &vote, sizeof(vote));
    send(worker, {.data = place,
                  .bytes = bytes,
                  .immediate = wire::immediate(wire::kVoteSlot, layout_.epoch + epochs_ahead)});
  }
  void send_hyper(std::uint32_t worker, const Hyper& hyper) {
    std::byte* const place = workers_[worker]->gradients->data();
    std::memcpy(place, &hyper, sizeof(hyper));
    send(worker, {.data = place,
                  .bytes = sizeof(hyper),
                  .immediate = wire::immediate(wire::kHyperSlot, layout_.epoch)});
  }
  // One worker pushes a chunk from where another is in its memory; the core takes it.
  void push_from_elsewhere(std::uint32_t worker, std::uint32_t slot, std::uint32_t place) {
    const std::byte* const memory = workers_[worker]->gradients->data();
    send(worker, {.data = memory + places_[place],
                  .bytes = kChunkBytes,
                  .immediate = wire::immediate(slot, layout_.epoch)});
  }
  // One worker pushes these bytes in the place of a chunk.
  void push_bytes(std::uint32_t worker, std::uint32_t slot, std::span<const std::byte> bytes) {
    std::byte* const place = workers_[worker]->gradients->data() + places_[slot];
    std::memcpy(place, bytes.data(), bytes.size());
    send(worker, {.data = place,
                  .bytes = static_cast<std::uint32_t>(bytes.size()),
                  .immediate = wire::immediate(slot, layout_.epoch)});
  }
  // Why the core let a worker go; empty: it let nobody go.
  std::string_view reason() {
    const auto event = core_->next_event();
    return event ? event->reason : std::string_view();
  }
  // Whom, and why; nothing: nobody.
  std::optional<server::LossEvent> event() { return core_->next_event(); }
  // The core takes what there is.
  void run() {
    while (core_->run_once()) {
    }
  }
  // The core's loop once, with something else to do: a write of another epoch has come.
  void busy_turn() {
    push_one(*workers_.front(), 0, layout_.epoch + 1);
    PHUB_CHECK(core_->run_once(), "there was something to do");
  }
  // Replies that are there now.
  std::size_t waiting_replies() const {
    std::size_t count = 0;
    std::vector<Completion> batch(kChunks);
    for (const auto& worker : workers_) count += worker->endpoint->poll(batch);
    return count;
  }
  // The replies that one worker has now.
  std::vector<Completion> take_waiting(std::uint32_t worker) {
    std::vector<Completion> batch(kChunks);
    batch.resize(workers_[worker]->endpoint->poll(batch));
    return batch;
  }
  const Plan& plan() const { return *layout_.plan; }
  // Takes the replies to a round.
  void take_replies() {
    for (auto& worker : workers_) {
      PHUB_CHECK(replies(*worker, kChunks) == kChunks, "every chunk has its reply");
    }
  }
  // Sets every element of what every worker pushes.
  void fill(float value) {
    for (auto& worker : workers_) {
      for (const std::uint64_t place : places_) {
        for (std::uint32_t i = 0; i < kChunkBytes; i += sizeof(value)) {
          std::memcpy(worker->gradients->data() + place + i, &value, sizeof(value));
        }
      }
    }
  }
  RigWorker& worker(std::uint32_t index) { return *workers_[index]; }
  // One worker pushes a chunk, as it is in its memory; the core takes it.
  void push_slot(std::uint32_t worker, std::uint32_t slot) {
    push_one(*workers_[worker], slot, layout_.epoch);
    run();
  }
  std::uint32_t workers() const { return layout_.workers; }
  server::Shard& shard() { return on_core_->shard; }
  std::uint64_t drops(server::Drop cause) const { return core_->drops().value(cause); }

 private:
  static constexpr std::size_t kBatch = 16;
  static constexpr std::uint32_t kOfEach = 2;
  static constexpr std::uint32_t kChunkBytes = RigWorker::kChunkBytes;

  void send(std::uint32_t worker, const Write& write) {
    RigWorker& from = *workers_[worker];
    PHUB_CHECK(from.endpoint->post(from.peer, {&write, 1}) == 1, "room for a write");
    while (core_->run_once()) {
    }
  }

  void push_all(std::uint32_t epoch) {
    for (auto& worker : workers_) push(*worker, epoch);
    while (core_->run_once()) {
    }
  }

  void connect(std::uint32_t index, const std::string& transport) {
    if (transport == "shm") return connect_shm(index);
    transport == "verbs" ? connect_verbs(index) : connect_tcp(index);
  }

  void connect_tcp(std::uint32_t index) {
    RigWorker& worker = *workers_[index];
    auto [own, cores] = stream_pair();
    auto endpoint = std::move(*TcpEndpoint::create({.max_peers = 1}, worker));
    if (layout_.checksums) endpoint->send_checksums(worker);
    worker.peer = *endpoint->add(std::move(own));
    worker.endpoint = std::move(endpoint);
    PHUB_CHECK(core_->attachments().connect_tcp(on_core_.get(), index, std::move(cores)).ok(),
               "tcp");
  }

  void connect_shm(std::uint32_t index) {
    RigWorker& worker = *workers_[index];
    const std::uint32_t capacity = channel_capacity(kChunks);
    auto channel = std::move(*SharedMemory::create("channel", channel_bytes(capacity)));
    auto [own, cores] = stream_pair();
    const auto side = [&](UniqueFd socket, bool core_side) {
      ShmConnection connection;
      connection.socket = std::move(socket);
      connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
      connection.capacity = capacity;
      connection.core_side = core_side;
      const SharedMemory& mine = core_side ? *job_->published : *worker.gradients;
      const SharedMemory& peers = core_side ? *worker.gradients : *job_->published;
      connection.own_memory = {mine.data(), mine.size()};
      connection.peer_memory = std::move(*Mapping::of_file(peers.fd(), peers.size(), false));
      return connection;
    };
    auto endpoint = std::move(*ShmEndpoint::create(1));
    worker.peer = *endpoint->add(side(std::move(own), false));
    worker.endpoint = std::move(endpoint);
    auto connection = side(std::move(cores), true);
    std::byte* const line = connection.peer_memory->data();
    auto landing = std::make_shared<const WindowLayout>(
        make_shared_window_layout(*layout_.plan, 0, 0, sizeof(float), layout_.checksums));
    PHUB_CHECK(core_->attachments()
                   .connect_shm(on_core_.get(), index, std::move(connection), line, landing)
                   .ok(),
               "shm");
  }

  void connect_verbs(std::uint32_t index) {
    RigWorker& worker = *workers_[index];
    const auto& device = rdma_devices().front();
    worker.registered = std::move(
        *verbs::register_both(device, {worker.gradients->data(), worker.gradients->size()},
                              {worker.parameters->data(), worker.window_bytes}));
    worker.landing = memory_->window_layout(0, 0);
    auto endpoint = std::move(*VerbsEndpoint::create(device, 1, worker, worker));
    if (layout_.checksums) endpoint->send_checksums(worker);
    const auto parts = *memory_->of(index, 0);
    // Twice the room of a round: nobody here tries the rest of a post again.
    auto own = std::move(
        *endpoint->connector().prepare(verbs::regions_of(worker.registered), 2 * kChunks));
    auto cores = std::move(*core_->attachments().connector().prepare(parts, kChunks + 2));
    std::tie(own.socket, cores.socket) = stream_pair();
    own.peer = cores.own;
    cores.peer = own.own;
    PHUB_CHECK(endpoint->connector().connect(own).ok() &&
                   core_->attachments().connector().connect(cores).ok(),
               "connect");
    worker.peer = *endpoint->add(std::move(own));
    worker.endpoint = std::move(endpoint);
    PHUB_CHECK(core_->attachments()
                   .connect_verbs(on_core_.get(), index, std::move(cores), parts.window.data(),
                                  memory_->window_layout(0, 0))
                   .ok(),
               "verbs");
  }

  void push_one(RigWorker& worker, std::uint32_t slot, std::uint32_t epoch) const {
    const Write write{.data = worker.gradients->data() + places_[slot],
                      .bytes = kChunkBytes,
                      .immediate = wire::immediate(slot, epoch)};
    PHUB_CHECK(worker.endpoint->post(worker.peer, {&write, 1}) == 1, "room for a write");
  }

  void push(RigWorker& worker, std::uint32_t epoch) const {
    std::vector<Write> writes;
    for (std::uint32_t slot = 0; slot < kChunks; ++slot) {
      writes.push_back({.data = worker.gradients->data() + places_[slot],
                        .bytes = kChunkBytes,
                        .immediate = wire::immediate(slot, epoch)});
      if (writes.size() < kBatch) continue;
      PHUB_CHECK(worker.endpoint->post(worker.peer, writes) == kBatch, "room for a round");
      writes.clear();
    }
  }

  static std::size_t replies(RigWorker& worker, std::size_t count) {
    std::size_t arrived = 0;
    for (const Completion& reply : collect(*worker.endpoint, count)) {
      arrived += reply.kind == CompletionKind::kArrived ? 1 : 0;
    }
    return arrived;
  }

  server::JobLayout layout_;
  std::vector<std::uint64_t> places_;  // of chunks in a worker's memory
  std::shared_ptr<server::JobMemory> job_;
  std::shared_ptr<server::VerbsMemory> memory_;
  std::unique_ptr<server::JobOnCore> on_core_;
  std::vector<std::unique_ptr<RigWorker>> workers_;
  std::unique_ptr<server::Core> core_;  // before the workers: both ends of a connection
};

}  // namespace phub::testing
