// Compute as a sleep: to moments that follow from each other, so that what one sleep is late by
// does not add up over layers and iterations.
//
// Belongs to one thread.
#pragma once

#include <cstdint>

namespace phub::bench::replay {

// CLOCK_MONOTONIC in nanoseconds; tests have another.
class PacingClock {
 public:
  virtual ~PacingClock() = default;
  virtual std::int64_t now() const;
  virtual void sleep_until(std::int64_t moment) const;  // clock_nanosleep, TIMER_ABSTIME
};

// Also asks the kernel for sleeps that end as punctually as they can (PR_SET_TIMERSLACK).
const PacingClock& monotonic_clock();

class Pacer {
 public:
  explicit Pacer(const PacingClock& clock) : clock_(clock) {}

  // Compute begins anew: what came before is not made up for.
  void rest() { due_ = clock_.now(); }

  // Returns when a computation that began at the end of the one before would be done; at once if
  // that has passed.
  void compute(double seconds);

  // Before and after a wait for others. What they took delays the next computation, unless it was
  // there at once.
  std::int64_t waits() const { return clock_.now(); }
  void waited(std::int64_t since);

 private:
  const PacingClock& clock_;
  std::int64_t due_ = 0;  // when the last computation ends
};

}  // namespace phub::bench::replay
