// Outer steps of racks that do not wait long for each other (rack_rounds): whose differences are in
// a chunk's outer step, when the step is made, and which racks are replied to.
//
// A rack pushes a chunk's difference, and pushes the next one only after the reply. At the root an
// outer step waits for the racks that were in the last step or have pushed since. After some time
// it needs only a quorum of racks. A rack's own rounds go on meanwhile. What an outer step adds to
// a rack's parameters is merged at the end of one of its rounds.
//
// Data of an OuterSteps; its core's thread only. Nothing grows after set-up.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/encoding.h"
#include "server/chunks/rounds/grace_queue.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class OuterRounds {
 public:
  // What an event means for others than the shard. The core sends it.
  struct Outcome {
    bool goes_up = false;      // this rack's difference
    bool is_complete = false;  // a round of this rack: its workers are replied to
    bool is_together = false;  // an outer step was made here: its racks are replied to
    bool has_moved = false;    // this rack's parameters, by other racks' differences
  };

  OuterRounds(const RackLocal& local, std::uint32_t racks, std::size_t chunks)
      : waits(chunks),
        policy_(local),
        racks_(racks),
        present_(racks),
        chunks_(chunks),
        arrived_(chunks, racks),
        awaited_(chunks, racks),
        replied_(chunks, racks),
        lost_(1, racks),
        missed_(chunks * racks) {
    for (std::uint32_t slot = 0; slot < chunks; ++slot) {
      for (std::uint32_t rack = 0; rack < racks; ++rack) awaited_.insert(slot, rack);
    }
  }

  // ---- This rack's part ----
  // Its difference of the chunk was pushed, and `moved` is a buffer with a copy of it.
  // `are_waiting`: its workers wait for the outer step.
  void push_own(std::uint32_t slot, float* moved, bool are_waiting) {
    chunks_[slot] = {.moved = moved, .is_owed = true, .is_waiting = are_waiting};
    ++held_;
  }
  // Its difference was pushed, and the outer step with it is not made.
  bool is_owed(std::uint32_t slot) const { return chunks_[slot].is_owed; }
  // The same, and its workers wait.
  bool is_waiting(std::uint32_t slot) const { return chunks_[slot].is_waiting; }
  // They wait no longer: the round ends without the outer step.
  void go_on(std::uint32_t slot) { chunks_[slot].is_waiting = false; }
  // What the parameters are to be moved by, less what is still to be known; null: nothing.
  float* moved(std::uint32_t slot) const { return chunks_[slot].moved; }
  // An outer step without this rack's difference moves its parameters by what `moved` will have.
  void move(std::uint32_t slot, float* moved) {
    chunks_[slot].moved = moved;
    ++held_;
  }
  // The outer step with this rack's difference is made.
  void end_own(std::uint32_t slot) { chunks_[slot].is_owed = chunks_[slot].is_waiting = false; }
  // Takes what the parameters are moved by now; null: nothing is known.
  float* take_moved(std::uint32_t slot) {
    if (chunks_[slot].is_owed || chunks_[slot].moved == nullptr) return nullptr;
    --held_;
    return std::exchange(chunks_[slot].moved, nullptr);
  }
  std::size_t held() const { return held_; }  // buffers

  // ---- The root's part ----
  // A rack's difference is there. False: the rack waits for the reply to another one.
  bool arrive(std::uint32_t slot, std::uint32_t rack) {
    awaited_.insert(slot, rack);
    return arrived_.insert(slot, rack);
  }
  std::uint32_t size(std::uint32_t slot) const { return arrived_.size(slot); }
  bool has_quorum(std::uint32_t slot) const;
  // It has its quorum and all racks that it waits for.
  bool is_whole(std::uint32_t slot) const;
  // The racks over which an outer step takes the mean: those in it, or in one of the last steps, of
  // which there are as many as racks. So racks that push in turns move together no further than
  // racks that push at once.
  std::uint32_t taking_part(std::uint32_t slot) const;
  // The outer step is made with the differences that are there.
  void end(std::uint32_t slot);
  // Whether the last outer step had the rack's difference.
  bool is_replied(std::uint32_t slot, std::uint32_t rack) const {
    return replied_.contains(slot, rack);
  }
  // A rack leaves: no step waits for it, and the quorum is at most the racks that are left.
  void lose(std::uint32_t rack);
  bool is_lost(std::uint32_t rack) const { return lost_.contains(0, rack); }

  // ---- Time ----
  std::uint32_t wait_ms() const { return policy_.wait_ms; }
  // Somebody waits for the chunk's outer step, and no time runs yet.
  bool awaits(std::uint32_t slot) const {
    return !waits.contains(slot) && (size(slot) > 0 || is_waiting(slot));
  }
  GraceQueue waits;  // chunks whose outer step is waited for

  Outcome outcome;  // of the last event

 private:
  struct Own {
    float* moved = nullptr;
    bool is_owed = false;
    bool is_waiting = false;
  };

  const RackLocal policy_;
  const std::uint32_t racks_;
  std::uint32_t present_;  // racks that have not left
  std::vector<Own> chunks_;
  std::size_t held_ = 0;
  WorkerSets arrived_;  // by slot: racks whose differences are there
  WorkerSets
      awaited_;  // by slot: racks that were in the last step, or have pushed since; first all
  WorkerSets replied_;                // by slot: racks that were in the last step
  WorkerSets lost_;                   // one set: racks that have left
  std::vector<std::uint8_t> missed_;  // [slot][rack]: outer steps since the last one with the rack
};

}  // namespace phub::server
