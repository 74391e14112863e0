// Bounded queue from one thread to one other. No locks; no allocation after construction.
//
// push is called by the producer only, pop by the consumer only. Each index has one writer: the
// store-release of tail_ in push pairs with the load-acquire in pop, that of head_ in pop with the
// load-acquire in push.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace phub {

template <typename T>
class SpscRing {
 public:
  explicit SpscRing(std::size_t capacity) : slots_(capacity + 1) {}

  bool push(T value) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t next = advance(tail);
    if (next == head_.load(std::memory_order_acquire)) return false;
    slots_[tail] = std::move(value);
    tail_.store(next, std::memory_order_release);
    return true;
  }

  std::optional<T> pop() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return std::nullopt;
    std::optional<T> value(std::move(slots_[head]));
    head_.store(advance(head), std::memory_order_release);
    return value;
  }

  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  std::size_t advance(std::size_t index) const {
    return index + 1 == slots_.size() ? 0 : index + 1;
  }

  std::vector<T> slots_;
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
};

}  // namespace phub
