// A bounded first-in, first-out queue of indices: of chunks, or of groups of them.
//
// Its core's thread only; it grows only in reserve.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace phub::server {

class IndexQueue {
 public:
  // Room for `most`.
  void reserve(std::size_t most) { ring_.resize(std::bit_ceil(most + 1)); }
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  void push(std::uint32_t index) { ring_[tail_++ & (ring_.size() - 1)] = index; }
  // These two REQUIRE that it is not empty.
  std::uint32_t front() const { return ring_[head_ & (ring_.size() - 1)]; }
  void pop() { ++head_; }
  void clear() { head_ = tail_; }

 private:
  std::vector<std::uint32_t> ring_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace phub::server
