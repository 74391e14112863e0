// What the last steps of a worker took: waiting for samples, waiting for the exchange, computing.
//
// Plain values; any thread. A worker reports them with its heartbeats, and servers keep the last
// report of each worker.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace phub::control {
class StepWaits;
}

namespace phub {

// As in proto/job.proto.
struct StepWaits {
  std::uint64_t steps = 0;
  std::uint64_t step_ns = 0;      // all of these steps together
  std::uint64_t input_ns = 0;     // of which the worker waited for samples
  std::uint64_t exchange_ns = 0;  // and in push and wait
  std::uint64_t samples = 0;      // 0: they are not counted
  // Where samples came from. All are 0 where that is not counted.
  std::uint64_t from_source = 0, from_disk = 0, from_memory = 0, from_peers = 0;
  std::uint32_t input_threads = 0;  // 0: that is not known
  std::uint32_t cpus = 0;           // the same

  bool operator==(const StepWaits&) const = default;

  // Shares of the steps' time, from 0 to 1. They add up to 1. REQUIRES: check succeeds.
  double input_share() const { return share(input_ns); }
  double exchange_share() const { return share(exchange_ns); }
  double compute_share() const { return share(step_ns - input_ns - exchange_ns); }
  double step_seconds() const {  // the mean of a step
    return static_cast<double>(step_ns) * 1e-9 / static_cast<double>(steps);
  }
  std::uint64_t counted() const { return from_source + from_disk + from_memory + from_peers; }

 private:
  double share(std::uint64_t part) const {
    return static_cast<double>(part) / static_cast<double>(step_ns);
  }
};

// Errors: kInvalidArgument names the field and what is allowed. Such times are of no steps: no step
// at all, parts that are longer than the whole, or numbers that no training reaches.
Status check(const StepWaits& times);

// From seconds, as callers measure them. Errors: as check, and for what is negative, infinite or
// not a number.
Result<StepWaits> step_waits_from(std::uint64_t steps, std::uint64_t samples, double seconds,
                                  double input_seconds, double exchange_seconds);

// Both ways. Errors: as check.
Result<StepWaits> step_waits_from(const control::StepWaits& message);
void fill(const StepWaits& times, control::StepWaits& message);

}  // namespace phub
