// How long each step of a network takes on its device.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/step_time.h"

namespace phub::nn::cuda {

// As Executor::time_steps.
Result<DeviceProfile> time_steps(Runtime& runtime, LoweredRunner& runner, std::uint32_t passes);

}  // namespace phub::nn::cuda
