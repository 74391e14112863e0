// One worker's connection to one core; over tcp it may be several streams, each of them a
// Connection, of which the first stands for all. Belongs to the core's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/protocol/priority_set.h"
#include "common/protocol/window_layout.h"
#include "common/protocol/wire.h"
#include "common/transport/transport.h"
#include "server/connections/job_on_core.h"
#include "server/job/rack_routes.h"

namespace phub::server {

// Who is at the other end.
enum class PeerRole : std::uint8_t {
  kWorker,
  kRackBelow,  // another rack's server, which pushes its rack's sums here
  kRackAbove,  // another rack's server, to which this rack's sums are pushed
};

struct Connection {
  Connection(JobOnCore* job_, std::uint32_t worker_, std::byte* window_ = nullptr,
             std::shared_ptr<const WindowLayout> window_layout_ = nullptr)
      : job(job_),
        worker(worker_),
        in_place(window_ != nullptr),
        window(window_),
        window_layout(std::move(window_layout_)),
        counters(&job_->worker_counters[worker_]),
        sparse_replies(worker_ < job_->workers
                           ? !in_place && job_->shard.updates.replies.may_be_changes()
                           : job_->compresses_racks()),
        role(worker_ < job_->workers ? PeerRole::kWorker : PeerRole::kRackBelow),
        epoch(job_->epoch),
        hyper(job_->hyper),
        replies(job_->shard.chunks()),
        most_queued(job_->shard.chunks() + kWords) {}

  // Makes it one of its worker's streams, of so many; `first_` owns it, and is null for itself.
  void become_stream(std::uint32_t index, std::uint32_t count, Connection* first_) {
    stream = index;
    streams = count;
    first = first_;
    const std::uint32_t chunks = job->shard.chunks();
    most_queued = chunks / count + (index < chunks % count ? 1 : 0) + kWords;
  }
  // Makes it the stream to one of a rack's cores.
  void follow(const CoreRoute& route_, std::uint32_t index, Connection* first_) {
    become_stream(index, static_cast<std::uint32_t>(route_.peers.size()), first_);
    route = &route_;
    most_queued = route_.peers[index].chunks + kWords;
  }
  // Whether the chunk comes this way, and its replies go.
  bool carries(std::uint32_t slot) const { return streams == 1 || stream_of(slot) == stream; }
  // Whether all streams are there. REQUIRES: it is the first.
  bool is_whole() const { return further.size() + 1 == streams; }
  // The stream that carries the chunk. REQUIRES: it is the first, and whole.
  Connection& carrier(std::uint32_t slot) {
    if (streams == 1) return *this;
    const std::uint32_t index = stream_of(slot);
    return index == 0 ? *this : *further[index - 1];
  }
  const Connection& main() const { return first == nullptr ? *this : *first; }
  Connection& main() { return first == nullptr ? *this : *first; }
  // Of all of its worker's streams. REQUIRES: it is the first.
  std::uint64_t all_pushes() const {
    std::uint64_t all = pushes;
    for (const auto& other : further) all += other->pushes;
    return all;
  }
  // REQUIRES: it is the first.
  template <typename Do>
  void for_each_stream(Do todo) {
    todo(*this);
    for (const auto& other : further) todo(*other);
  }

  static constexpr std::uint32_t kWords = 2;  // a Hyper and a Vote, at most

  // What is to be sent before replies (sums).
  enum Word : std::uint8_t { kHyper = 1, kVote = 2, kNorm = 4 };

  JobOnCore* job;
  std::uint32_t worker;  // its seat
  bool in_place;  // payloads stay where they are: the worker's memory (shm), its window (verbs)
  // One-sided pushes: where they land, by slot. Over shm `window` is the worker's line for the
  // core. kRackAbove: over shm what it replies from, over verbs where pushes land there.
  std::byte* window;
  std::shared_ptr<const WindowLayout> window_layout;
  WorkerCounters* counters;  // of what it carries
  // It is sent what changed, where that is smaller: by tcp, and over verbs where its window has a
  // place for it (Attachments::connect_verbs); a rack: the sum.
  bool sparse_replies;
  PeerRole role;
  std::uint32_t epoch;  // that its messages carry
  transport::Endpoint* endpoint = nullptr;
  transport::PeerId peer = 0;
  Prices* prices = nullptr;  // of its pushes
  Hyper hyper;               // for the pushes that follow; kRackAbove: that are made
  // Where tcp places words, as a worker's line has them.
  alignas(16) std::array<std::byte, wire::kHyperStride> arriving = {};
  Vote vote;                   // kRackAbove: the rack's
  std::byte* words = nullptr;  // kRackAbove: where both are pushed from, as a worker's line
  std::uint8_t owed = 0;       // words; to a worker only norms, to a rack above only the others
  PrioritySet replies;         // slots that are complete; their replies (pushes) are due
  std::uint64_t pushes = 0;    // chunks that were taken
  std::uint32_t queued = 0;    // arrivals that wait for their turn
  bool paused = false;         // too far ahead of the slowest worker, or of its turn
  bool ready = false;          // in its job's list of those with something to be read
  Connection* next_ready = nullptr;  // the link of that list
  bool dirty = false;                // in the core's list of connections with replies
  std::uint32_t batched = 0;         // times that its replies were kept back to be more
  bool lost = false;                 // with its worker: all of its streams are
  std::uint32_t most_queued;         // each of its chunks once, and words
  std::uint32_t stream = 0;          // which of its worker's, and of how many
  std::uint32_t streams = 1;
  const CoreRoute* route = nullptr;  // to a rack with other cores; null: chunks have their slots
  Connection* first = nullptr;       // that stands for all; null: this one
  std::vector<std::unique_ptr<Connection>> further;  // of the first

 private:
  std::uint32_t stream_of(std::uint32_t slot) const {
    if (route == nullptr) return slot % streams;
    return slot < route->peer_of.size() ? route->peer_of[slot] : streams;
  }
};

}  // namespace phub::server
