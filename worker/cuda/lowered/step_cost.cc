#include "worker/cuda/lowered/step_cost.h"

#include <set>

namespace phub::nn::cuda {
namespace {

// Of every output pixel and channel: a window of the channels of its group. The same for all three
// directions.
std::uint64_t flops_of(const OpGraph& graph, const ConvolutionOp& op) {
  const Operand& weights = graph.operand(op.weights);  // K, C / groups, R, S
  const auto outputs = static_cast<std::uint64_t>(graph.operand(op.output).elements());
  const auto taps = static_cast<std::uint64_t>(weights.elements() / weights.dimensions[0]);
  return 2 * outputs * taps;
}

}  // namespace

StepCost cost_of(const Lowered& lowered, const Step& step) {
  StepCost cost;
  const std::set<BufferId> ids(step.buffers().begin(), step.buffers().end());
  for (const BufferId id : ids) cost.bytes += lowered.buffer(id).bytes();
  const auto* work = std::get_if<GraphStep>(&step.work);
  if (work == nullptr) return cost;
  for (const Operation& operation : work->graph.operations()) {
    if (const auto* convolution = std::get_if<ConvolutionOp>(&operation)) {
      cost.flops += flops_of(work->graph, *convolution);
    }
  }
  return cost;
}

}  // namespace phub::nn::cuda
