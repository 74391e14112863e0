#include "worker/nn/cuda/lowered.h"

#include <functional>
#include <numeric>
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

}  // namespace phub::nn::cuda
