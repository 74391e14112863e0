// The steps that a worker has reported lately, as its heartbeats tell servers of them.
//
// Owned by the client. Any thread: the caller's adds, gRPC's threads read.
#pragma once

#include <mutex>
#include <optional>

#include "common/steps/step_waits.h"

namespace phub::client {

// Adds reports up: those of about the last 15 to 30 s of the steps' own time, and at least the
// last.
class RecentSteps {
 public:
  // REQUIRES: check(times) succeeds.
  void add(const StepWaits& times);
  // Nothing: no step was reported.
  std::optional<StepWaits> sum() const;

 private:
  mutable std::mutex mutex_;  // of all below
  StepWaits before_;          // the last whole part of the time, if there is one
  StepWaits current_;         // the part that is being filled
};

}  // namespace phub::client
