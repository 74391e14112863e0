#include "worker/cuda/cudnn/wrong_engines.h"

#include <algorithm>
#include <variant>

namespace phub::nn::cuda {
namespace {

// A pooling that keeps no index: an average, or a maximum in inference.
bool pools_bf16_without_index(const OpGraph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(),
                     [&](const Operation& operation) {
                       const auto* pool = std::get_if<PoolForwardOp>(&operation);
                       return pool != nullptr && pool->index == pool->x &&
                              graph.operand(pool->x).type == ElementType::kBfloat16;
                     });
}

}  // namespace

std::string_view why_wrong(const OpGraph& graph, const EngineChoice& choice) {
  if (choice.engine == 3 && pools_bf16_without_index(graph)) {
    return "engine 3 pools bf16 wrongly (seen with cuDNN 9.19 on an H200)";
  }
  return {};
}

}  // namespace phub::nn::cuda
