// A lowered network with memory, whose steps can be queued: PlannedNetwork on a GPU, an interpreter
// in tests. Used by the executor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/cuda/lowered/lowered.h"

namespace phub::nn::cuda {

enum class Pass : std::uint8_t { kForward, kBackward, kInference };
inline constexpr std::size_t kPasses = 3;

class LoweredRunner {
 public:
  LoweredRunner() = default;
  LoweredRunner(const LoweredRunner&) = delete;
  LoweredRunner& operator=(const LoweredRunner&) = delete;
  virtual ~LoweredRunner() = default;

  virtual const Lowered& lowered() const = 0;
  virtual void* address(BufferId id) const = 0;  // the device's
  virtual DataType type_of(BufferId id) const = 0;
  // One for each layer: DropoutMask::key() of the passes in training that follow.
  virtual std::uint64_t* dropout_keys() const = 0;
  // Queues the steps [first, last) of a pass on Stream::kCompute.
  virtual Status run(Pass pass, std::size_t first, std::size_t last) = 0;
  // Runs a pass and waits: the seconds of each step.
  virtual Result<std::vector<double>> time(Pass pass) = 0;
};

inline const std::vector<Step>& steps_of(const Lowered& lowered, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return lowered.forward;
    case Pass::kBackward:
      return lowered.backward;
    case Pass::kInference:
      break;
  }
  return lowered.inference;
}

}  // namespace phub::nn::cuda
