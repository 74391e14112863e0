// Pushes of one job that have arrived at a core and wait for their turn.
//
// Belongs to the core's thread. Room for all that can be on its way at once, a bound that the core
// holds workers to; resident as far as it was used.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace phub::server {

struct Connection;

// Over tcp: while so many wait no more is read, and of one stream no more at a time.
inline constexpr std::size_t kReadsInATurn = 16;

struct Arrival {
  Connection* connection;
  std::byte* data;
  std::uint32_t immediate;
  std::uint32_t bytes;
  std::uint64_t arrived;  // ticks
};

class ArrivalQueue {
 public:
  explicit ArrivalQueue(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1),
        capacity_(capacity),
        arrivals_(std::make_unique_for_overwrite<Arrival[]>(mask_ + 1)) {}

  // Room for so many more. Allocates, in set-up.
  void grow(std::size_t more) {
    ArrivalQueue larger(capacity_ + more);
    while (!empty()) larger.push(pop());
    head_ = larger.head_;
    tail_ = larger.tail_;
    mask_ = larger.mask_;
    capacity_ = larger.capacity_;
    arrivals_ = std::move(larger.arrivals_);
    length_.store(tail_ - head_, std::memory_order_relaxed);
  }

  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  void push(const Arrival& arrival) {
    PHUB_DCHECK(size() <= mask_, "the core holds workers to the bound");
    arrivals_[tail_++ & mask_] = arrival;
    length_.store(tail_ - head_, std::memory_order_relaxed);
  }
  // These two REQUIRE that it is not empty.
  const Arrival& front() const { return arrivals_[head_ & mask_]; }
  Arrival pop() {
    const Arrival arrival = arrivals_[head_++ & mask_];
    if (empty()) head_ = tail_ = 0;  // stays in the cache's lines that it has
    length_.store(tail_ - head_, std::memory_order_relaxed);
    return arrival;
  }
  // Any thread.
  std::uint64_t length() const { return length_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t mask_;
  std::size_t capacity_;
  std::unique_ptr<Arrival[]> arrivals_;  // NOLINT(*-avoid-c-arrays): not initialised, on purpose
  std::atomic<std::uint64_t> length_{0};
};

}  // namespace phub::server
