// graph_check.h on the GPU that is current.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/cuda/support/step_comparison.h"

namespace phub::testing {

struct GraphsChecked {
  std::vector<Difference> differences;  // empty: all is right
  std::size_t graphs = 0;               // different ones
};

// One step of training on noise, every different graph against its definition. `address`: of a
// buffer, on the device; `run` returns when the step is done. Error: the step's. Throws
// std::runtime_error for those of CUDA.
Result<GraphsChecked> check_graphs_on_device(
    const nn::cuda::Lowered& lowered, const std::function<void*(nn::cuda::BufferId)>& address,
    const std::function<Status(nn::cuda::Pass, std::size_t)>& run,
    const StepComparison::Channels& channels);

}  // namespace phub::testing
