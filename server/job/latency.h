// A histogram of latencies in powers of two, from 1 us to 8 s. One writer, any readers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/counter.h"

namespace phub::server {

// What a histogram holds: counts[i] latencies of at most 2^i us (and more than 2^(i-1) us), the
// last one of all above.
struct LatencyCounts {
  static constexpr std::size_t kBounds = 24;
  static double bound_seconds(std::size_t i) { return static_cast<double>(1ULL << i) * 1e-6; }

  std::array<std::uint64_t, kBounds + 1> counts = {};
  std::uint64_t sum_nanoseconds = 0;

  void add(const LatencyCounts& other) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_nanoseconds += other.sum_nanoseconds;
  }
};

class LatencyHistogram {
 public:
  void add(std::uint64_t nanoseconds) {
    const std::uint64_t above = nanoseconds == 0 ? 0 : (nanoseconds - 1) / 1000;
    const auto index = static_cast<std::size_t>(std::bit_width(above));
    counts_[std::min(index, LatencyCounts::kBounds)].add(1);
    sum_.add(nanoseconds);
  }

  LatencyCounts counts() const {
    LatencyCounts copy;
    for (std::size_t i = 0; i < counts_.size(); ++i) copy.counts[i] = counts_[i].value();
    copy.sum_nanoseconds = sum_.value();
    return copy;
  }

 private:
  std::array<Counter, LatencyCounts::kBounds + 1> counts_;
  Counter sum_;
};

}  // namespace phub::server
