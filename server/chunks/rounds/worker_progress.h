// How far the workers of a job with a quorum are: how often each has pushed each chunk, who is the
// slowest, and who has left.
//
// The slowest workers of a chunk are the present ones that have pushed it least often. Counts wrap;
// two of them differ by less than 2^31. Data of a QuorumRounds; its core's thread only. Nothing
// grows after set-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class WorkerProgress {
 public:
  // `knows_slowest`: the slowest workers of each chunk are known at any time.
  WorkerProgress(std::uint32_t workers, std::size_t chunks, bool knows_slowest)
      : workers_(workers),
        present_(workers),
        lost_(1, workers),
        pushes_(chunks * workers),
        slowest_(knows_slowest ? chunks : 0, Slowest{.pushes = 0, .workers = workers}) {}

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(pushes_.size() / workers_); }
  // ---- Who is there ----
  // Returns how many workers have not left.
  std::uint32_t present() const { return present_; }
  bool has_left(std::uint32_t worker) const { return lost_.contains(0, worker); }
  // The worker leaves. False: it has left before.
  bool lose(std::uint32_t worker) {
    if (!lost_.insert(0, worker)) return false;
    --present_;
    return true;
  }
  // Returns the present worker with the lowest index. REQUIRES: a worker is present.
  std::uint32_t lowest() const {
    std::uint32_t worker = 0;
    while (has_left(worker)) ++worker;
    return worker;
  }

  // ---- Pushes ----
  // Counts a push. Returns how often the worker had pushed the chunk before.
  std::uint32_t count(std::uint32_t slot, std::uint32_t worker) {
    return pushes_[at(slot, worker)]++;
  }
  std::uint32_t pushes(std::uint32_t slot, std::uint32_t worker) const {
    return pushes_[at(slot, worker)];
  }
  // Returns how often each present worker has pushed each chunk, at least.
  std::uint32_t steps() const;

  // ---- The slowest workers. These REQUIRE knows_slowest ----
  // Returns how many pushes of the chunk the worker is ahead of the slowest.
  std::uint32_t lead(std::uint32_t slot, std::uint32_t worker) const {
    return pushes_[at(slot, worker)] - slowest_[slot].pushes;
  }
  // Whether the slowest of the chunk have moved since the last call for it.
  bool take_move(std::uint32_t slot) { return std::exchange(slowest_[slot].has_moved, false); }
  // A worker that had pushed the chunk `pushes` times has pushed it again, or has left. REQUIRES: a
  // worker is present.
  void leave_slowest(std::uint32_t slot, std::uint32_t pushes);

 private:
  struct Slowest {
    std::uint32_t pushes = 0;
    std::uint32_t workers = 0;  // present ones that have pushed the chunk so often
    bool has_moved = false;     // since the last take_move
  };

  std::size_t at(std::uint32_t slot, std::uint32_t worker) const {
    return slot * std::size_t{workers_} + worker;
  }
  Slowest find_slowest(std::uint32_t slot) const;

  const std::uint32_t workers_;
  std::uint32_t present_;
  WorkerSets lost_;                    // one set
  std::vector<std::uint32_t> pushes_;  // [slot][worker], of all rounds
  std::vector<Slowest> slowest_;       // by slot; empty: not knows_slowest
};

}  // namespace phub::server
