// How long the chunks of one job take on one core, and the log of its rounds.
//
// The core's thread tells it what happens; histograms and `busy` may be read by any thread.
// Stamps are ticks.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/counter.h"
#include "common/base/ticks.h"
#include "server/job/latency.h"
#include "server/job/round_log.h"

namespace phub::server {

class RoundTimes {
 public:
  RoundTimes(std::uint32_t workers, std::uint32_t chunks)
      : log_(workers, chunks), chunks_(chunks) {}

  // A push arrived at `now`. REQUIRES: the slot exists.
  void pushed(std::uint32_t worker, std::uint32_t slot, std::uint64_t now) {
    log_.pushed(worker, now);
    if (chunks_[slot].first_push == 0) chunks_[slot].first_push = now;
  }

  // The chunk's last push arrived at `arrived`.
  void gathered(std::uint32_t slot, std::uint64_t arrived, const TickRate& rate) {
    wait_for_slowest.add(rate.nanoseconds_of(passed(chunks_[slot].first_push, arrived)));
  }

  // It is complete now.
  void completed(std::uint32_t slot, std::uint64_t now) {
    Chunk& chunk = chunks_[slot];
    chunk.answered_from = chunk.first_push;
    chunk.first_push = 0;
    log_.completed(now);
  }

  // A worker is sent the chunk's answer.
  void answering(std::uint32_t slot, std::uint64_t now, const TickRate& rate) {
    push_to_reply.add(rate.nanoseconds_of(passed(chunks_[slot].answered_from, now)));
  }
  // So many answers were sent to the worker.
  void answered(std::uint32_t worker, std::uint32_t answers, std::uint64_t now) {
    log_.answered(worker, answers, now);
  }

  // The core worked so long for the job.
  void worked(std::uint64_t spent) {
    busy.add(spent);
    log_.worked(spent);
  }

  const RoundLog& log() const { return log_; }

  LatencyHistogram push_to_reply;     // of each answer, from the chunk's first push
  LatencyHistogram wait_for_slowest;  // of each chunk, from its first push to its last
  Counter busy;                       // ticks

 private:
  struct Chunk {
    std::uint64_t first_push = 0;     // of the round that is under way; 0: nobody has pushed
    std::uint64_t answered_from = 0;  // the first push of the round that is answered
  };
  // Processors' counters may differ by a little.
  static std::uint64_t passed(std::uint64_t from, std::uint64_t to) {
    return to > from ? to - from : 0;
  }

  RoundLog log_;
  std::vector<Chunk> chunks_;  // by slot
};

}  // namespace phub::server
