// The processor's constant-rate counter: a time stamp for a few nanoseconds, on any thread.
//
// Stamps of one machine's processors agree (invariant TSC, the ARM's generic timer); where there is
// neither, the steady clock's nanoseconds take their place.
#pragma once

#include <chrono>
#include <cstdint>

namespace phub {

inline std::uint64_t steady_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return steady_nanoseconds();
#endif
}

// Converts ticks. A value; pure after it is measured.
class TickRate {
 public:
  // Spins for two milliseconds.
  static TickRate measure() {
    constexpr std::uint64_t kSpinNanoseconds = 2'000'000;
    const std::uint64_t start = steady_nanoseconds();
    const std::uint64_t start_ticks = ticks();
    std::uint64_t now = start;
    while (now - start < kSpinNanoseconds) now = steady_nanoseconds();
    const double passed = static_cast<double>(now - start);
    return TickRate(static_cast<double>(ticks() - start_ticks) / passed);
  }
  explicit TickRate(double per_nanosecond)
      : per_nanosecond_(per_nanosecond),
        nanoseconds_(
            static_cast<std::uint64_t>(static_cast<double>(1ULL << kFraction) / per_nanosecond)) {}

  std::uint64_t ticks_of(std::chrono::nanoseconds time) const {
    return static_cast<std::uint64_t>(static_cast<double>(time.count()) * per_nanosecond_);
  }
  // A multiplication, of as many bits as are needed.
  std::uint64_t nanoseconds_of(std::uint64_t tick_count) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{tick_count} * nanoseconds_) >> kFraction);
  }
  double seconds_of(std::uint64_t tick_count) const {
    return static_cast<double>(tick_count) / per_nanosecond_ * 1e-9;
  }

 private:
  static constexpr int kFraction = 16;

  double per_nanosecond_;
  std::uint64_t nanoseconds_;  // of a tick, in units of 2^-kFraction
};

// Where stamps come from if not from the processor: a simulation makes its own time.
class TickSource {
 public:
  virtual ~TickSource() = default;
  virtual std::uint64_t now() = 0;  // in nanoseconds, never less than before
};

// Stamps, and what they mean. A value; belongs to one thread where it has a source.
class Clock {
 public:
  // `source` outlives it; null: the processor's counter, whose rate is measured first.
  explicit Clock(TickSource* source = nullptr)
      : source_(source), rate_(source == nullptr ? TickRate::measure() : TickRate(1.0)) {}

  std::uint64_t now() const { return source_ == nullptr ? ticks() : source_->now(); }
  const TickRate& rate() const { return rate_; }

 private:
  TickSource* source_;
  TickRate rate_;
};

}  // namespace phub
