// How long the chunks of one job take on one core, and the log of its rounds.
//
// The core's thread tells it what happens; histograms and `busy` may be read by any thread.
// Stamps are ticks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/counter.h"
#include "common/base/ticks.h"
#include "server/job/latency.h"
#include "server/job/round_log.h"

namespace phub::server {

class RoundTimes {
 public:
  // `brought`: see RoundLog. `is_logged`: false of a job with a quorum, whose chunks have no rounds
  // together.
  RoundTimes(std::uint32_t workers, std::uint32_t chunks, std::vector<std::uint32_t> brought = {},
             bool is_logged = true)
      : log_(workers, is_logged ? chunks : UINT32_MAX, std::move(brought)), chunks_(chunks) {}

  // A push arrived at `now`. REQUIRES: the slot exists.
  void pushed(std::uint32_t worker, std::uint32_t slot, std::uint64_t now) {
    log_.pushed(worker, now);
    if (chunks_[slot].first_push == 0) chunks_[slot].first_push = now;
  }

  // A sum or a reply of another rack arrived at `now`.
  void brought(std::uint32_t rack, std::uint64_t now) { log_.brought(rack, now); }

  // The chunk's last push arrived at `arrived`.
  void gathered(std::uint32_t slot, std::uint64_t arrived, const TickRate& rate) {
    wait_for_slowest.add(rate.nanoseconds_of(passed(chunks_[slot].first_push, arrived)));
  }

  // It is complete now.
  void completed(std::uint32_t slot, std::uint64_t now) {
    Chunk& chunk = chunks_[slot];
    chunk.replied_from = chunk.first_push;
    chunk.first_push = 0;
    log_.completed(now);
  }

  // It is replied to as it is, for a push that arrived at `now` and changed nothing.
  void dropped(std::uint32_t slot, std::uint64_t now) { chunks_[slot].replied_from = now; }

  // A worker is sent the chunk's reply.
  void replying(std::uint32_t slot, std::uint64_t now, const TickRate& rate) {
    push_to_reply.add(rate.nanoseconds_of(passed(chunks_[slot].replied_from, now)));
  }
  // So many replies were sent to the worker.
  void replied(std::uint32_t worker, std::uint32_t replies, std::uint64_t now) {
    log_.replied(worker, replies, now);
  }

  // The core worked so long for the job.
  void worked(std::uint64_t spent) {
    busy.add(spent);
    log_.worked(spent);
  }

  const RoundLog& log() const { return log_; }

  LatencyHistogram push_to_reply;     // of each reply, from the chunk's first push
  LatencyHistogram wait_for_slowest;  // of each chunk, from its first push to its last
  Counter busy;                       // ticks

 private:
  struct Chunk {
    std::uint64_t first_push = 0;    // of the round that is under way; 0: nobody has pushed
    std::uint64_t replied_from = 0;  // the first push of the round that is replied to
  };
  // Processors' counters may differ by a little.
  static std::uint64_t passed(std::uint64_t from, std::uint64_t to) {
    return to > from ? to - from : 0;
  }

  RoundLog log_;
  std::vector<Chunk> chunks_;  // by slot
};

}  // namespace phub::server
