#include "bench/replay/pacer.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace phub::bench::replay {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;
// A wait that is shorter found what it waited for: the rest is the client's own work.
constexpr std::int64_t kAtOnce = 20'000;

}  // namespace

std::int64_t PacingClock::now() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanoseconds + now.tv_nsec;
}

void PacingClock::sleep_until(std::int64_t moment) const {
  const timespec until{.tv_sec = moment / kNanoseconds, .tv_nsec = moment % kNanoseconds};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

const PacingClock& monotonic_clock() {
  static const PacingClock clock;
  ::prctl(PR_SET_TIMERSLACK, 1);
  return clock;
}

void Pacer::compute(double seconds) {
  if (seconds <= 0) return;
  due_ += std::llround(seconds * static_cast<double>(kNanoseconds));
  if (due_ > clock_.now()) clock_.sleep_until(due_);
}

void Pacer::waited(std::int64_t since) {
  const std::int64_t now = clock_.now();
  if (now - since > kAtOnce) due_ = std::max(due_, now);
}

}  // namespace phub::bench::replay
