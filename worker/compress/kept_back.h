// What a worker has kept back of a key's gradients, for a checkpoint to read and to write.
#pragma once

#include <cstdint>
#include <span>

namespace phub {

struct KeptBack {
  std::span<float> rest = {};       // was not sent yet; empty: the key is pushed whole
  std::span<float> velocity = {};   // of momentum correction; empty: there is none
  std::uint32_t* rounds = nullptr;  // that are over, as the warm-up counts them; null: as `rest`
  float* loss_scale = nullptr;      // of both, 0: none was told; null: workers do not vote on it
};

}  // namespace phub
