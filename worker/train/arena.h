// fp32 arrays for all keys, each on its own cache lines. One owner.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "worker/client/phub.h"

namespace phub::train {

class Arena {
 public:
  explicit Arena(const std::vector<KeySpec>& keys) {
    std::size_t total = 0;
    for (const KeySpec& key : keys) {
      offsets_.push_back(total);
      sizes_.push_back(key.elements);
      total += (key.elements + kLineFloats - 1) / kLineFloats * kLineFloats;
    }
    lines_ = std::vector<Line>(total / kLineFloats);
  }

  std::span<float> of(KeyId key) {
    return {lines_.empty() ? nullptr : lines_.front().values + offsets_[key], sizes_[key]};
  }
  std::span<const float> of(KeyId key) const {
    return {lines_.empty() ? nullptr : lines_.front().values + offsets_[key], sizes_[key]};
  }

 private:
  static constexpr std::size_t kLineFloats = 16;
  struct alignas(64) Line {
    float values[kLineFloats] = {};
  };

  std::vector<std::size_t> offsets_;
  std::vector<std::size_t> sizes_;
  std::vector<Line> lines_;
};

}  // namespace phub::train
