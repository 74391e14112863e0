// Rules lars and lamb on one core: the norms of each key's parameters and of its gradient or its
// direction, and its trust.
//
// Sums of squares come run by run (ChunkParameters) and are added in the order of the runs, so
// neither arrival nor machine changes a bit. Its core's thread only; nothing grows after set-up.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/lamb.h"
#include "kernels/lars.h"

namespace phub::server {

class KeyNorms {
 public:
  explicit KeyNorms(const LarsOptions& options) : options_(options) {}

  // At set-up, in their order: a key, then each of its runs.
  void add_key(bool exclude_from_lars, float weight_decay) {
    keys_.push_back({.first_run = static_cast<std::uint32_t>(squares_.size()),
                     .exclude_from_lars = exclude_from_lars,
                     .weight_decay = weight_decay});
  }
  void add_run() {
    ++keys_.back().runs;
    squares_.emplace_back();
    key_of_run_.push_back(keys() - 1);
  }
  std::uint32_t keys() const { return static_cast<std::uint32_t>(keys_.size()); }

  kernels::KeySquares& squares(std::uint32_t run) { return squares_[run]; }
  // From the squares of all of its runs.
  void find_trust(std::uint32_t index, float gradient_scale) {
    Key& key = keys_[index];
    key.set_trust(kernels::trust_of(options_, sum_of(key), gradient_scale, key.weight_decay));
  }
  // ---- Of rule lamb: before directions are made and after, when they are the runs' gradients ----
  void look_at_gradients(std::uint32_t index) {
    Key& key = keys_[index];
    const bool is_finite = std::isfinite(sum_of(key).gradients);
    key.trust = is_finite ? 1.0F : std::numeric_limits<float>::quiet_NaN();
  }
  void find_lamb_trust(std::uint32_t index) {
    Key& key = keys_[index];
    if (!std::isfinite(key.trust)) return;
    const kernels::KeySquares sum = sum_of(key);
    key.set_trust(kernels::lamb_trust(sum.parameters, sum.gradients));
  }
  // A NaN: its key is left out.
  float trust(std::uint32_t run) const { return keys_[key_of_run_[run]].trust; }

 private:
  struct Key {
    std::uint32_t first_run = 0;
    std::uint32_t runs = 0;
    bool exclude_from_lars = false;
    float weight_decay = 0.0F;
    float trust = 1.0F;  // of the round that is being updated

    void set_trust(float value) {
      trust = exclude_from_lars && std::isfinite(value) ? 1.0F : value;
    }
  };
  kernels::KeySquares sum_of(const Key& key) const {
    kernels::KeySquares sum;
    for (std::uint32_t run = key.first_run; run < key.first_run + key.runs; ++run) {
      sum.parameters += squares_[run].parameters;
      sum.gradients += squares_[run].gradients;
    }
    return sum;
  }

  LarsOptions options_;
  std::vector<Key> keys_;
  std::vector<kernels::KeySquares> squares_;  // by run
  std::vector<std::uint32_t> key_of_run_;
};

}  // namespace phub::server
