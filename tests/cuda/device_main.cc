// Catch's main for tests that run on a GPU, or on PHUB_GPUS_NEEDED of them: without they are
// skipped, and say so.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "tests/support/main/catch.h"

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(found));
    return kSkipped;
  }
  if (devices < PHUB_GPUS_NEEDED) {
    std::printf("skipped: %d GPU, %d needed\n", devices, PHUB_GPUS_NEEDED);
    return kSkipped;
  }
  return phub::testing::run_tests(argc, argv);
}
