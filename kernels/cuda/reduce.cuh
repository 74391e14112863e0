// Reductions over a block of kThreads threads, in a fixed order: the same bits every time.
#pragma once

#include "kernels/cuda/elements.cuh"

namespace phub::kernels::cuda {

// combine(a, b) of all threads' values, in every thread. All threads call it; `room` is shared
// memory of kThreads values, free again when it returns.
template <typename T, typename Combine>
__device__ T block_reduce(T value, T* room, Combine combine) {
  room[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      room[threadIdx.x] = combine(room[threadIdx.x], room[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const T result = room[0];
  __syncthreads();
  return result;
}

}  // namespace phub::kernels::cuda
