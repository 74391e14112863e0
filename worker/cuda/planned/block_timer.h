// How long a block's steps take on the device, on buffers where a network's own would be.
//
// Owns as much of the device's memory as the largest lowering that it was asked about needs, so it
// goes before the network is planned. The backend's thread; the book outlives it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "worker/cuda/lowered/memory_plan.h"
#include "worker/cuda/planned/engine_book.h"
#include "worker/cuda/tuning/fusion_search.h"

namespace phub::nn::cuda {

class BlockTimer : public StepDevice {
 public:
  BlockTimer(EngineBook& book, DataType compute_type) : book_(book), compute_type_(compute_type) {}

  Status supports(const OpGraph& graph) override { return book_.supports(graph); }
  // The median of several runs. Measures engines first where the book does that. Errors:
  // kResourceExhausted where the lowering's buffers do not fit on the device.
  Result<double> microseconds(const BlockWay& way) override;

  // The engines of a lowering's training, before any block is looked at: a run that is cut short
  // then leaves what the fused network needs. What no engine takes is left to who judges
  // blocks; the first other error comes back when all were tried.
  Status measure_engines(const Lowered& lowered,
                         const std::function<void(std::size_t, std::size_t)>& progress);

 private:
  Status make_room(const Lowered& lowered);

  EngineBook& book_;
  DataType compute_type_;
  MemoryPlan plan_;
  BlockPointer memory_, dropout_keys_;
};

}  // namespace phub::nn::cuda
