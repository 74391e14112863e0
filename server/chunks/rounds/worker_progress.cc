#include "server/chunks/rounds/worker_progress.h"

#include <algorithm>

namespace phub::server {

std::uint32_t WorkerProgress::steps() const {
  std::uint32_t steps = UINT32_MAX;
  for (std::uint32_t slot = 0; slot < chunks(); ++slot) {
    steps = std::min(steps, find_slowest(slot).pushes);
  }
  return pushes_.empty() ? 0 : steps;
}

// When the last one of the slowest leaves them, others become the slowest. They are found once for
// as many pushes as there are workers.
void WorkerProgress::leave_slowest(std::uint32_t slot, std::uint32_t pushes) {
  Slowest& slowest = slowest_[slot];
  if (pushes == slowest.pushes && --slowest.workers == 0) slowest = find_slowest(slot);
}

WorkerProgress::Slowest WorkerProgress::find_slowest(std::uint32_t slot) const {
  Slowest slowest{.pushes = 0, .workers = 0, .has_moved = true};
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (has_left(worker)) continue;
    const std::uint32_t pushes = pushes_[at(slot, worker)];
    // Counts wrap: one is less if it is behind by less than half of them.
    if (slowest.workers == 0 || static_cast<std::int32_t>(pushes - slowest.pushes) < 0) {
      slowest.pushes = pushes;
      slowest.workers = 0;
    }
    if (pushes == slowest.pushes) ++slowest.workers;
  }
  return slowest;
}

}  // namespace phub::server
