// How far a holder has come with a sample, and when it reads ahead after an error. Values; the
// holder's mutex guards them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace phub::data {

// kTried: it could not be read once, and is unread again.
enum class Reading : std::uint8_t { kUnread, kTried, kReading, kReadingAgain, kHeld, kAbsent };

constexpr bool is_unread(Reading state) {
  return state == Reading::kUnread || state == Reading::kTried;
}
constexpr bool is_read_now(Reading state) {
  return state == Reading::kReading || state == Reading::kReadingAgain;
}
// The sample is read from now on.
constexpr Reading begun(Reading state) {
  return state == Reading::kTried ? Reading::kReadingAgain : Reading::kReading;
}
// The read of it has failed.
constexpr Reading failed(Reading state) {
  return state == Reading::kReading ? Reading::kTried : Reading::kAbsent;
}

// Nothing is read ahead before a pause is over, so that a fault that passes meets few samples. Each
// pause is twice as long as the one before, until something can be read. Errors that come within a
// pause do not make it longer.
class ErrorPause {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ErrorPause(std::chrono::milliseconds first) : first_(first), next_(first) {}

  void on_error() {
    const Clock::time_point now = Clock::now();
    if (now < end_) return;
    end_ = now + next_;
    next_ = std::min(2 * next_, kLongest);
  }
  void on_success() { next_ = first_; }
  bool is_over() const { return Clock::now() >= end_; }
  Clock::time_point end() const { return end_; }

 private:
  static constexpr std::chrono::milliseconds kLongest{10'000};

  std::chrono::milliseconds first_, next_;
  Clock::time_point end_{};
};

}  // namespace phub::data
