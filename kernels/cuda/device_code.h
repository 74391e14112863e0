// Marks what nvcc compiles for the device, or for both sides; other compilers make host functions
// of it, so that it is tested where there is no GPU.
#pragma once

#ifdef __CUDACC__
#define PHUB_DEVICE __device__
#define PHUB_HOST_DEVICE __host__ __device__
#define PHUB_UNROLL _Pragma("unroll")
#else
#define PHUB_DEVICE
#define PHUB_HOST_DEVICE
#define PHUB_UNROLL
#endif

namespace phub::kernels::cuda {

// Neighbours that a thread takes at a time: 16 bytes of 16-bit elements.
inline constexpr int kEight = 8;

}  // namespace phub::kernels::cuda
