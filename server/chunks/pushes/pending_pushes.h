// The pushes of each chunk that are not part of its sum yet, in the order in which they are added.
//
// Data of a PushSums; its core's thread only. Nothing grows after set-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/chunks/pushes/push.h"

namespace phub::server {

class PendingPushes {
 public:
  // Each chunk has `most` places.
  PendingPushes(std::size_t chunks, std::uint32_t most) : most_(most), pushes_(chunks * most) {}

  // Makes a table of the worker that made each push. Without it worker_of returns the place. At
  // set-up.
  void know_workers() { workers_.resize(pushes_.size()); }
  // Stores the worker whose push comes into the chunk's place `index`, if there is such a table.
  void note(std::uint32_t slot, std::uint32_t index, std::uint32_t worker) {
    if (workers_.empty()) return;
    workers_[slot * most_ + index] = static_cast<std::uint16_t>(worker);
  }

  // Returns the chunk's places. An empty one has no data.
  Contribution* of(std::uint32_t slot) { return &pushes_[slot * most_]; }
  const Contribution* of(std::uint32_t slot) const { return &pushes_[slot * most_]; }
  // Returns the worker whose push is in the chunk's place `index`.
  std::uint32_t worker_of(std::uint32_t slot, std::uint32_t index) const {
    return workers_.empty() ? index : workers_[slot * most_ + index];
  }

 private:
  const std::uint32_t most_;
  std::vector<Contribution> pushes_;    // [chunk][place]
  std::vector<std::uint16_t> workers_;  // [chunk][place]; empty: not asked for
};

}  // namespace phub::server
