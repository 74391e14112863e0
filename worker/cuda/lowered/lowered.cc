#include "worker/cuda/lowered/lowered.h"

#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace phub::nn::cuda {

std::size_t Buffer::bytes() const {
  const std::int64_t elements =
      std::accumulate(dimensions.begin(), dimensions.end(), std::int64_t{1}, std::multiplies<>());
  return static_cast<std::size_t>(elements) * size_of(type);
}

const std::vector<BufferId>& Step::buffers() const {
  return std::visit([](const auto& step) -> const std::vector<BufferId>& { return step.buffers; },
                    work);
}

BufferId Lowered::add(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size() - 1);
}

std::vector<const GraphStep*> different_graphs(
    std::initializer_list<const std::vector<Step>*> passes) {
  std::vector<const GraphStep*> different;
  std::set<std::string> seen;
  for (const auto* steps : passes) {
    for (const Step& step : *steps) {
      const auto* graph = std::get_if<GraphStep>(&step.work);
      if (graph != nullptr && seen.insert(graph->graph.key()).second) different.push_back(graph);
    }
  }
  return different;
}

}  // namespace phub::nn::cuda
