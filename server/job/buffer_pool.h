// Staging chunks of one job on one core: where tcp payloads land and sums of 16-bit pushes live.
//
// Owned by a JobOnCore, used by its core's thread only. Address space for the worst case is
// reserved at set-up; memory becomes resident as far as it is used, and the last buffer given back
// is the first handed out again, so that a job in step stays within a few cache-hot chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/counter.h"
#include "common/base/status.h"
#include "common/memory/memory.h"

namespace phub::server {

class BufferPool {
 public:
  // `count` buffers of at least `bytes`. Neighbours are a few cache lines more than that apart, or
  // the sources of one sum would all fall into the same sets of the cache.
  static Result<std::unique_ptr<BufferPool>> create(std::size_t count, std::size_t bytes) {
    const std::size_t stride = stride_of(bytes);
    PHUB_ASSIGN_OR_RETURN(auto memory, Mapping::anonymous(count * stride));
    return std::unique_ptr<BufferPool>(new BufferPool(std::move(memory), count, stride));
  }

  // What a buffer takes.
  static constexpr std::size_t stride_of(std::size_t bytes) { return (bytes + 63) / 64 * 64 + 192; }

  // Null when all are taken: the count is derived from an honest job's worst case.
  std::byte* take() {
    if (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      return memory_->data() + index * stride_;
    }
    if (touched_ == count_) return nullptr;
    high_water_.add(1);
    return memory_->data() + touched_++ * stride_;
  }

  // For a push that is being read. Null: the worker sends more than it may, for the last buffer is
  // for a sum.
  std::byte* take_for_push() { return free() > 1 ? take() : nullptr; }

  void give(std::byte* buffer) {
    const auto offset = static_cast<std::size_t>(buffer - memory_->data());
    PHUB_DCHECK(offset % stride_ == 0 && offset < memory_->size(), "not a buffer of this pool");
    free_.push_back(static_cast<std::uint32_t>(offset / stride_));
  }

  // Whether it is memory of this pool.
  bool owns(const std::byte* data) const {
    const std::less<> before;
    return !before(data, memory_->data()) && before(data, memory_->data() + memory_->size());
  }

  std::size_t free() const { return free_.size() + (count_ - touched_); }
  std::size_t in_use() const { return touched_ - free_.size(); }
  // Bytes that were ever touched. Any thread.
  std::size_t touched_bytes() const { return high_water_.value() * stride_; }

 private:
  BufferPool(std::unique_ptr<Mapping> memory, std::size_t count, std::size_t stride)
      : memory_(std::move(memory)), stride_(stride), count_(count) {
    free_.reserve(count);
  }

  std::unique_ptr<Mapping> memory_;
  std::size_t stride_;
  std::size_t count_;
  std::vector<std::uint32_t> free_;  // that were used; its room, reserved, is for all
  std::size_t touched_ = 0;          // buffers that were ever used
  Counter high_water_;
};

}  // namespace phub::server
