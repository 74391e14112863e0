// One worker's connection to one core. Belongs to the core's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "common/protocol/priority_set.h"
#include "common/protocol/window_layout.h"
#include "common/protocol/wire.h"
#include "common/transport/transport.h"
#include "server/chunks/job_on_core.h"

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
        sparse_replies(!in_place && (worker_ < job_->workers ? job_->shard.has_sparse_replies()
                                                             : job_->shard.compresses_racks())),
        role(worker_ < job_->workers ? PeerRole::kWorker : PeerRole::kRackBelow),
        epoch(job_->epoch),
        hyper(job_->hyper),
        replies(job_->shard.chunks()) {}

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
  // place for it (Core::connect_verbs); a rack: the sum.
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
  bool lost = false;
};

}  // namespace phub::server
