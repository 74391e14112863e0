// The workers of a scenario while they work: how each of them ends.
//
// Belongs to the bench's main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "bench/base/line_channel.h"
#include "common/base/status.h"

namespace phub::bench {

enum class EndKind { kDone, kError, kKilled, kHung };

struct WorkerEnd {
  std::uint32_t worker = 0;  // by the order of the hosts
  EndKind kind = EndKind::kDone;
  std::string error = {};  // what it said
  std::chrono::steady_clock::time_point when = {};
};

class RackWorkers {
 public:
  virtual ~RackWorkers() = default;

  // Of the worker that ends next; each comes once. Errors: kDeadlineExceeded; kAborted:
  // interrupted.
  virtual Result<WorkerEnd> next_end(Deadline deadline) = 0;
  virtual pid_t pid(std::uint32_t worker) const = 0;
};

}  // namespace phub::bench
