// Jobs of tcp workers on one core without a thread: what a worker sends are bytes that the test
// writes into its end of a stream, when and in what pieces it likes.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "common/protocol/wire.h"
#include "common/transport/tcp/frame.h"
#include "server/core/core.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::testing {

struct StreamsJobOptions {
  std::uint32_t workers = 2;
  std::uint32_t chunks = 4;
  std::uint32_t chunk_bytes = 256;
  std::uint32_t tenant = 0;
  std::uint32_t weight = 1;
  std::uint64_t id = 0;
  std::uint32_t epoch = 1;
  RuleKind rule = RuleKind::kSum;
  LossScaling loss_scaling = LossScaling::kNone;
  std::uint32_t chunks_of_key = 1;  // at most
  RoundPolicy rounds = {};
  Hyper hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
  float weight_decay = 0.01F;
  std::uint32_t tcp_streams = 1;  // then what is said of a worker below is of one of its streams
};

// One job on the core, and its workers' ends of the streams.
class StreamsJob {
 public:
  explicit StreamsJob(const StreamsJobOptions& options)
      : sockets(std::size_t{options.workers} * options.tcp_streams),
        unsent(sockets.size()),
        received(sockets.size()) {
    PlanInput input;
    for (std::uint32_t left = options.chunks, chunks = 0; left > 0; left -= chunks) {
      chunks = std::min(left, options.chunks_of_key);
      input.key_elements.push_back(std::uint64_t{chunks} * options.chunk_bytes / sizeof(float));
    }
    input.whole_keys = needs_whole_keys(options.rule);
    input.chunk_bytes = options.chunk_bytes;
    input.cores_per_server = {1};
    layout.job_id = options.id;
    layout.tenant_id = options.tenant;
    layout.weight = options.weight;
    layout.epoch = options.epoch;
    layout.workers = options.workers;
    layout.rule = options.rule;
    layout.hyper = options.hyper;
    layout.weight_decay.assign(input.key_elements.size(), options.weight_decay);
    layout.lars = {.coefficient = 0.02F, .epsilon = 1e-6F};
    layout.adaptive.epsilon = 1e-6;
    layout.loss_scale.kind = options.loss_scaling;
    layout.rounds = options.rounds;
    layout.deterministic = options.rounds.waits_for_all();
    layout.tcp_streams = options.tcp_streams;
    layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    PHUB_CHECK(layout.plan->chunks.size() == options.chunks, "no chunk is cut");
    memory = std::move(*server::JobMemory::create(layout));
    on_core = std::move(*server::JobOnCore::create(layout, 0, memory));
  }

  // Which stream of the worker carries the chunk.
  std::uint32_t stream(std::uint32_t worker, std::uint32_t slot) const {
    return worker * layout.tcp_streams + slot % layout.tcp_streams;
  }

  // A push of the chunk, every element of it `value`, as it goes over the stream.
  std::vector<std::byte> frame(std::uint32_t slot, float value) const {
    return frame(slot, value, layout.epoch);
  }
  std::vector<std::byte> frame(std::uint32_t slot, float value, std::uint32_t epoch) const {
    const std::vector<float> values(on_core->shard.push_bytes(slot) / sizeof(float), value);
    return frame_of(wire::immediate(slot, epoch), std::as_bytes(std::span(values)));
  }
  static std::vector<std::byte> frame_of(std::uint32_t immediate,
                                         std::span<const std::byte> payload) {
    const auto bytes = static_cast<std::uint32_t>(payload.size());
    const transport::FrameHeader header{transport::kFrameMagic, immediate, bytes,
                                        transport::frame_check(immediate, bytes)};
    std::vector<std::byte> frame(sizeof(header) + bytes);
    std::memcpy(frame.data(), &header, sizeof(header));
    std::memcpy(frame.data() + sizeof(header), payload.data(), bytes);
    return frame;
  }

  // Sends what the stream takes of the bytes; how many it took.
  std::size_t send(std::uint32_t worker, std::span<const std::byte> bytes) const {
    const ssize_t sent =
        ::send(sockets[worker].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }
  // Of a stream that has room for it.
  void push(std::uint32_t worker, std::uint32_t slot, float value = 1.0F) const {
    const auto bytes = frame(slot, value);
    PHUB_CHECK(send(worker, bytes) == bytes.size(), "the stream has room for a push");
  }
  // A push that goes when `pump` finds room for it.
  void push_later(std::uint32_t worker, std::uint32_t slot, float value = 1.0F) {
    send_later(worker, frame(slot, value));
  }
  void send_later(std::uint32_t worker, std::span<const std::byte> bytes) {
    unsent[worker].bytes.insert(unsent[worker].bytes.end(), bytes.begin(), bytes.end());
  }
  // Sends at most so many bytes of what is to go; what is left then.
  std::size_t pump(std::uint32_t worker, std::size_t most = SIZE_MAX) {
    auto& [bytes, sent] = unsent[worker];
    const auto rest = std::span(bytes).subspan(sent);
    if (!rest.empty()) sent += send(worker, rest.first(std::min(most, rest.size())));
    if (sent < bytes.size()) return bytes.size() - sent;
    bytes.clear();
    sent = 0;
    return 0;
  }

  struct Reply {
    std::uint32_t slot = 0;
    float value = 0;       // of its first element
    bool is_even = false;  // all elements have it
    bool skipped = false;  // the update was left out
  };
  // Replies that are whole, after at most so many bytes more have been read.
  std::vector<Reply> take_replies(std::uint32_t worker, std::size_t most = std::size_t{1} << 20) {
    auto& bytes = received[worker];
    const std::size_t had = bytes.size();
    bytes.resize(had + most);
    const ssize_t got = ::recv(sockets[worker].get(), &bytes[had], most, MSG_DONTWAIT);
    bytes.resize(had + (got > 0 ? static_cast<std::size_t>(got) : 0));
    std::vector<Reply> replies;
    std::size_t at = 0;
    for (transport::FrameHeader header = {}; bytes.size() - at >= sizeof(header);) {
      std::memcpy(&header, &bytes[at], sizeof(header));
      if (bytes.size() - at < sizeof(header) + header.bytes) break;
      std::vector<float> values(header.bytes / sizeof(float));
      std::memcpy(values.data(), &bytes[at + sizeof(header)], header.bytes);
      replies.push_back({wire::reply_slot_of(header.immediate), values[0],
                         std::all_of(values.begin(), values.end(),
                                     [&](float value) { return value == values[0]; }),
                         wire::was_skipped(header.immediate)});
      at += sizeof(header) + header.bytes;
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    return replies;
  }
  std::size_t replies(std::uint32_t worker) { return take_replies(worker).size(); }

  server::JobLayout layout;
  std::shared_ptr<server::JobMemory> memory;
  std::unique_ptr<server::JobOnCore> on_core;
  // By worker, and stream by stream.
  std::vector<UniqueFd> sockets;
  struct Unsent {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
  };
  std::vector<Unsent> unsent;
  std::vector<std::vector<std::byte>> received;  // the beginning of a reply
};

class StreamsRig {
 public:
  explicit StreamsRig(std::uint32_t max_connections = 256, TickSource* time = nullptr) {
    server::CoreOptions options;
    options.max_connections = max_connections;
    options.own_thread = false;
    options.time = time;
    core = std::move(*server::Core::create(options));
  }
  ~StreamsRig() {
    for (const auto& job : jobs_) core->attachments().detach(job->on_core.get());
  }
  StreamsRig(const StreamsRig&) = delete;
  StreamsRig& operator=(const StreamsRig&) = delete;

  // A job whose workers are all connected.
  StreamsJob& add(StreamsJobOptions options) {
    options.id = ++ids_;
    StreamsJob& job = *jobs_.emplace_back(std::make_unique<StreamsJob>(options));
    for (std::uint32_t w = 0; w < options.workers; ++w) connect(job, w);
    return job;
  }
  void connect(StreamsJob& job, std::uint32_t worker) const {
    PHUB_CHECK(try_to_connect(job, worker).ok(), "room for it");
  }
  Status try_to_connect(StreamsJob& job, std::uint32_t worker) const {
    std::vector<transport::TcpStream> streams;
    for (std::uint32_t i = 0; i < job.layout.tcp_streams; ++i) {
      auto [own, cores] = transport::stream_pair();
      job.sockets[job.stream(worker, i)] = std::move(own);
      streams.emplace_back(std::move(cores));
    }
    if (streams.size() > 1) {
      return core->attachments().connect_tcp(job.on_core.get(), worker, std::move(streams));
    }
    return core->attachments().connect_tcp(job.on_core.get(), worker, std::move(streams[0]));
  }
  void remove(const StreamsJob& job) {
    core->attachments().detach(job.on_core.get());
    jobs_.remove_if([&](const auto& other) { return other.get() == &job; });
  }

  // Until there has been nothing to do for some rounds of the core; false: there still is, after
  // very many.
  bool run() const {
    int idle = 0;
    for (int i = 0; i < 100'000 && idle < 20; ++i) idle = core->run_once() ? 0 : idle + 1;
    return idle == 20;
  }

  std::unique_ptr<server::Core> core;

 private:
  std::list<std::unique_ptr<StreamsJob>> jobs_;
  std::uint64_t ids_ = 0;
};

}  // namespace phub::testing
