// A statistic with one writer and any readers: a plain add on the writer's side.
#pragma once

#include <atomic>
#include <cstdint>

namespace phub {

class Counter {
 public:
  // Writer only.
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace phub
