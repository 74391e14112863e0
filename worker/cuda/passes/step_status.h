// How a step tells the host how far it is: a word for each thing that the host waits for, copied
// behind it.
//
// A word carries the step's number, so an old one is never taken for a new one, also where the
// copies are parts of a graph; events cannot say that. Used by the executor's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/status.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

struct alignas(8) StatusWord {
  std::uint32_t step = 0;
  std::int32_t not_finite = 0;
};

class StepStatus {
 public:
  // Slots: the loss, then one for each part of backward whose gradients are waited for.
  static constexpr std::size_t kLossSlot = 0;
  static constexpr std::size_t gradient_slot(std::size_t part) { return kLossSlot + 1 + part; }

  // `timeout`: of a wait for the device.
  static Result<std::unique_ptr<StepStatus>> create(Runtime& runtime, std::size_t slots,
                                                    std::chrono::milliseconds timeout);

  // A new step, on kCompute. REQUIRES: the last one's words have been waited for.
  Status begin();
  // For kernels: becomes 1 where a number of the slot's is not finite.
  int* not_finite(std::size_t slot) const;
  // Behind what is on the stream: tells the host. May be captured.
  Status tell(std::size_t slot, Stream stream);
  // Waits until it has been told: whether all of the slot's numbers were finite. Error:
  // kDeadlineExceeded.
  Result<bool> wait(std::size_t slot);
  // The same at once; nothing: it has not been told yet.
  std::optional<bool> look(std::size_t slot) const;
  // What to say where the device has nothing left to do and has not told.
  Status never_told(std::size_t slot) const;

 private:
  StepStatus(Runtime& runtime, std::chrono::milliseconds timeout)
      : runtime_(runtime), timeout_(timeout) {}

  Runtime& runtime_;
  const std::chrono::milliseconds timeout_;
  std::size_t slots_ = 0;
  std::uint32_t step_ = 0;
  BlockPointer device_, told_, fresh_;  // fresh: what steps begin with, of two steps in turn
  EventPointer sent_[2];
};

}  // namespace phub::nn::cuda
