// Running statistics on the host when somebody asks for them: checkpoints do.
//
// Owned by the executor; its thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/ops.h"

namespace phub::nn::cuda {

class StateMirror {
 public:
  // The device's statistics become the initial ones.
  static Result<std::unique_ptr<StateMirror>> create(Runtime& runtime, const LoweredRunner& runner);

  // What the device has, waiting for it.
  Result<std::vector<StateBuffer>> read();
  // kCompute: what was read, and perhaps changed, is the device's again. Nothing if nobody read.
  Status write_back();

 private:
  StateMirror(Runtime& runtime, const LoweredRunner& runner)
      : runtime_(runtime), states_(runner.lowered().states), runner_(runner) {}

  Status copy_all(bool to_device);

  Runtime& runtime_;
  const std::vector<StateLayout>& states_;
  const LoweredRunner& runner_;
  BlockPointer pinned_;
  std::vector<std::size_t> offsets_;  // bytes, by state
  bool is_read_ = false;
};

}  // namespace phub::nn::cuda
