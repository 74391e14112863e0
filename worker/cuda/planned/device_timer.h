// How long queued work takes on the device, by CUDA's events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "common/base/status.h"
#include "worker/cuda/cudnn/target.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {

struct DestroyTimer {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using TimerEvent = std::unique_ptr<CUevent_st, DestroyTimer>;

// Runs `queue`, which puts work on the target's default stream, `launches` times and waits.
// Microseconds of all of them. Once before the first event too: what the host needs to queue the
// rest then passes while the device is at work.
inline Result<double> device_microseconds(const std::function<Status()>& queue,
                                          std::size_t launches, CudnnTarget& target) {
  PHUB_RETURN_IF_ERROR(target.set_stream(nullptr));
  cudaEvent_t raw[2] = {};
  for (cudaEvent_t& event : raw)
    PHUB_RETURN_IF_ERROR(cuda_status(cudaEventCreate(&event), "a timer"));
  const TimerEvent start(raw[0]), end(raw[1]);
  PHUB_RETURN_IF_ERROR(queue());
  PHUB_RETURN_IF_ERROR(cuda_status(cudaEventRecord(start.get(), nullptr), "a timer"));
  for (std::size_t i = 0; i < launches; ++i) PHUB_RETURN_IF_ERROR(queue());
  PHUB_RETURN_IF_ERROR(cuda_status(cudaEventRecord(end.get(), nullptr), "a timer"));
  PHUB_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(end.get()), "a measurement"));
  float milliseconds = 0.0F;
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), "a timer"));
  return 1000.0 * static_cast<double>(milliseconds);
}

}  // namespace phub::nn::cuda
