// The device's memory that engines are timed on (measurement_noise.h): a network's own buffers, and
// copies beside them where those would stay in the device's cache.
//
// Owned by the book of engines; the backend's thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/lowered/element_type.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {

class MeasurementBuffers {
 public:
  // Addresses of the step's operands for launches in turn, all filled with noise; the first are
  // `own`. Valid until the next call. Only `own` where there is no room for others.
  Result<std::vector<std::vector<void*>>> sets(const GraphStep& step,
                                               const std::vector<void*>& own);

  // Gives back what is not the network's own.
  void free() { copies_.reset(); }

 private:
  Status fill(void* to, ElementType type, std::size_t bytes);

  BlockPointer copies_;
  std::map<ElementType, std::vector<std::byte>> noise_;  // of each type that was asked for
};

}  // namespace phub::nn::cuda
