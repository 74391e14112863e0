// Where each buffer of a lowered network lies in one block of memory.
//
// Scratch buffers whose lives do not overlap share memory; all others have their own. Training
// (forward, then backward) and inference never run at the same time: they share all scratch memory.
// A pure function.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/cuda/lowered/lowered.h"

namespace phub::nn::cuda {

// cudaMalloc's own alignment; cuDNN's engines want at most 128 bytes.
inline constexpr std::size_t kBufferAlignment = 256;

// What a buffer of so many bytes takes, so that the next one is aligned too.
constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct MemoryPlan {
  std::vector<std::size_t> offsets;        // by BufferId, in bytes
  std::size_t bytes = 0;                   // of the whole block
  std::size_t persistent_bytes = 0;        // of it: parameters, gradients, state, input
  std::size_t scratch_bytes_unshared = 0;  // what scratch buffers would take side by side
};

// `bytes_of` gives a buffer's size: Buffer::bytes, or that of a test.
MemoryPlan plan_memory(const Lowered& lowered,
                       const std::function<std::size_t(const Buffer&)>& bytes_of);

}  // namespace phub::nn::cuda
