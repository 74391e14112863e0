// How keys are divided among the GPUs of a worker: layers that travel together are a region of an
// array, and a region has a slice for each GPU. Pure data; immutable.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "worker/cuda/passes/pass_schedule.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

// Elements that slices are whole multiples of: 128 bytes and more, as copies and links like it.
inline constexpr std::size_t kSliceElements = 64;

// In elements.
struct ShardRegion {
  std::vector<std::size_t> layers{};  // positions in layer_keys()
  std::size_t first = 0;              // in the array
  std::size_t slice = 0;              // 0: no keys
};

// A part of a key that one rank's slice holds.
struct ShardPiece {
  std::size_t key = 0;
  std::size_t first = 0;  // element of the key
  std::size_t count = 0;
  std::size_t at = 0;  // element of the array

  bool operator==(const ShardPiece&) const = default;
};

class ShardLayout {
 public:
  // A region for each entry of `groups`, with the keys of its layers one behind the other; the
  // end is padded. REQUIRES: every layer is in one group.
  ShardLayout(std::span<const std::size_t> key_elements, const std::vector<KeyRange>& layers,
              const std::vector<std::vector<std::size_t>>& groups, std::size_t ranks);

  const std::vector<ShardRegion>& regions() const { return regions_; }
  std::size_t ranks() const { return ranks_; }
  std::size_t elements() const { return elements_; }  // of the array, padding included
  std::size_t offset(std::size_t key) const { return offsets_[key]; }  // element of the array
  // What of the region's keys is the rank's, in ascending order; padding is nobody's.
  const std::vector<ShardPiece>& pieces(std::size_t region, std::size_t rank) const {
    return pieces_[region * ranks_ + rank];
  }

 private:
  std::vector<ShardPiece> cut(const ShardRegion& region, const std::vector<std::size_t>& keys,
                              std::size_t rank) const;

  std::vector<std::size_t> key_elements_;
  std::size_t ranks_;
  std::vector<ShardRegion> regions_;
  std::vector<std::size_t> offsets_;             // by key
  std::vector<std::vector<ShardPiece>> pieces_;  // by region, then rank
  std::size_t elements_ = 0;
};

// Cuts a backward pass behind layers whose gradients are whole into about `parts` parts, each with
// as many elements of gradients as the others: what is summed and leaves together. Steps behind the
// last are a part without layers. All steps and all layers are in one.
std::vector<PassSegment> backward_parts(const PassSchedule& schedule,
                                        std::span<const std::size_t> key_elements,
                                        std::size_t parts);

}  // namespace phub::nn::cuda
