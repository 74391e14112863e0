// A bucket of tokens that fills at a steady rate: so many acts a second, and a burst of some.
//
// A value; one thread. Times are the caller's.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace phub::server {

class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  // Full at `now`. What is taken beyond `debt_max` is forgotten. REQUIRES: all are above 0.
  TokenBucket(double per_second, double burst, Clock::time_point now,
              double debt_max = std::numeric_limits<double>::infinity())
      : per_second_(per_second), burst_(burst), debt_max_(debt_max), tokens_(burst), filled_(now) {}

  // Takes a token, or so many, or goes into debt.
  void take(Clock::time_point now, double tokens = 1) {
    fill(now);
    tokens_ = std::max(tokens_ - tokens, -debt_max_);
  }

  // Below zero: a debt.
  double left(Clock::time_point now) {
    fill(now);
    return tokens_;
  }

  // How long until there is a token; zero: there is one.
  Clock::duration wait(Clock::time_point now) {
    fill(now);
    if (tokens_ >= 1) return Clock::duration::zero();
    const std::chrono::duration<double> missing((1 - tokens_) / per_second_);
    return std::chrono::ceil<Clock::duration>(missing);
  }

 private:
  void fill(Clock::time_point now) {
    const std::chrono::duration<double> passed = now - filled_;
    if (passed.count() <= 0) return;
    tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
    filled_ = now;
  }

  double per_second_;
  double burst_;
  double debt_max_;
  double tokens_;
  Clock::time_point filled_;
};

}  // namespace phub::server
