#include "worker/cuda/group/shard_layout.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace phub::nn::cuda {
namespace {

std::size_t elements_of(const KeyRange& keys, std::span<const std::size_t> key_elements) {
  const auto range = key_elements.subspan(keys.first, keys.count);
  return std::accumulate(range.begin(), range.end(), std::size_t{0});
}

}  // namespace

ShardLayout::ShardLayout(std::span<const std::size_t> key_elements,
                         const std::vector<KeyRange>& layers,
                         const std::vector<std::vector<std::size_t>>& groups, std::size_t ranks)
    : key_elements_(key_elements.begin(), key_elements.end()),
      ranks_(ranks),
      offsets_(key_elements.size()) {
  for (const auto& group : groups) {
    ShardRegion region{.layers = group, .first = elements_};
    std::vector<std::size_t> keys;
    std::size_t end = elements_;
    for (const std::size_t layer : group) {
      for (std::size_t key = layers[layer].first; key < layers[layer].first + layers[layer].count;
           ++key) {
        keys.push_back(key);
        offsets_[key] = end;
        end += key_elements[key];
      }
    }
    const std::size_t round = ranks * kSliceElements;
    region.slice = (end - region.first + round - 1) / round * kSliceElements;
    elements_ = region.first + ranks * region.slice;
    for (std::size_t rank = 0; rank < ranks; ++rank) pieces_.push_back(cut(region, keys, rank));
    regions_.push_back(std::move(region));
  }
}

std::vector<ShardPiece> ShardLayout::cut(const ShardRegion& region,
                                         const std::vector<std::size_t>& keys,
                                         std::size_t rank) const {
  const std::size_t first = region.first + rank * region.slice;
  std::vector<ShardPiece> pieces;
  for (const std::size_t key : keys) {
    const std::size_t begin = std::max(first, offsets_[key]);
    const std::size_t end = std::min(first + region.slice, offsets_[key] + key_elements_[key]);
    if (begin < end) pieces.push_back({key, begin - offsets_[key], end - begin, begin});
  }
  return pieces;
}

std::vector<PassSegment> backward_parts(const PassSchedule& schedule,
                                        std::span<const std::size_t> key_elements,
                                        std::size_t parts) {
  PHUB_CHECK(parts > 0, "at least one part");
  const std::size_t all = std::accumulate(key_elements.begin(), key_elements.end(), std::size_t{0});
  const std::size_t least = (all + parts - 1) / parts;
  const std::vector<GradientMark>& marks = schedule.marks;
  std::vector<PassSegment> cut;
  PassSegment part;
  std::size_t elements = 0;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    part.layers.push_back(marks[i].layer);
    part.last = marks[i].end;
    elements += elements_of(schedule.layers[marks[i].layer], key_elements);
    if (elements < least && i + 1 < marks.size()) continue;
    cut.push_back(part);
    part = {.first = part.last, .last = part.last};
    elements = 0;
  }
  if (part.last < schedule.backward_steps) {
    cut.push_back({.first = part.last, .last = schedule.backward_steps});
  }
  return cut;
}

}  // namespace phub::nn::cuda
