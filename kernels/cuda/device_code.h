// What a thread of a device's kernel does, compiled for the device by nvcc and for the host by
// others, so that it is tested where there is no GPU (kernels_reference_test).
#pragma once

#ifdef __CUDACC__
#define PHUB_DEVICE __device__
#define PHUB_UNROLL _Pragma("unroll")
#else
#define PHUB_DEVICE
#define PHUB_UNROLL
#endif

namespace phub::kernels::cuda {

// Neighbours that a thread takes at a time: 16 bytes of 16-bit elements.
inline constexpr int kEight = 8;

}  // namespace phub::kernels::cuda
