// Asks on the device whether numbers are finite: arrays are published onto themselves.
//
// Owned by the executor; its thread. The arrays outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "kernels/cuda/training_arguments.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

class FiniteCheck {
 public:
  struct Array {
    void* address = nullptr;  // the device's
    std::size_t elements = 0;
  };

  static Result<std::unique_ptr<FiniteCheck>> create(Runtime& runtime,
                                                     std::span<const Array> arrays, DataType type);

  FiniteCheck(const FiniteCheck&) = delete;
  FiniteCheck& operator=(const FiniteCheck&) = delete;

  // Leaves array `index` as it is, and makes *not_finite (the device's) 1 where it has to.
  kernels::cuda::PublishGradients of(std::size_t index, int* not_finite) const;

 private:
  FiniteCheck() = default;

  BlockPointer tensors_, chunks_;
  std::vector<std::int64_t> first_chunk_;  // by array, and the end
};

}  // namespace phub::nn::cuda
