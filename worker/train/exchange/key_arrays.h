// fp32 arrays for all keys, at the exchange's offsets (worker/nn/graph/segments.h). One owner.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/client/phub.h"
#include "worker/nn/graph/segments.h"

namespace phub::train {

class KeyArrays {
 public:
  // Without keys it is empty. REQUIRES: keys that the exchange takes.
  explicit KeyArrays(const std::vector<KeySpec>& keys) {
    if (keys.empty()) return;
    for (const KeySpec& key : keys) sizes_.push_back(key.elements);
    auto layout = nn::key_layout(sizes_, {});
    PHUB_CHECK(layout.has_value(), layout.error().message());
    offsets_ = std::move(layout->offsets);
    lines_ = std::vector<Line>((layout->elements + kLineFloats - 1) / kLineFloats);
  }

  std::span<float> of(KeyId key) { return {start() + offsets_[key], sizes_[key]}; }
  std::span<const float> of(KeyId key) const { return {start() + offsets_[key], sizes_[key]}; }

 private:
  static constexpr std::size_t kLineFloats = 16;
  struct alignas(64) Line {
    float values[kLineFloats] = {};
  };

  float* start() { return lines_.front().values; }
  const float* start() const { return lines_.front().values; }

  std::vector<std::uint64_t> offsets_;  // elements
  std::vector<std::uint64_t> sizes_;
  std::vector<Line> lines_;
};

}  // namespace phub::train
