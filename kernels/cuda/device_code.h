// Marks what nvcc compiles for the device, or for both sides; other compilers make host functions
// of it, so that it is tested where there is no GPU.
#pragma once

#ifdef __CUDACC__
#define PHUB_DEVICE __device__
#define PHUB_HOST_DEVICE __host__ __device__
#else
#define PHUB_DEVICE
#define PHUB_HOST_DEVICE
#endif
