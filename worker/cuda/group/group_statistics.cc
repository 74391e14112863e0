#include "worker/cuda/group/group_statistics.h"

#include <algorithm>

namespace phub::nn::cuda {

Result<std::vector<StateBuffer>> GroupStatistics::read() {
  PHUB_RETURN_IF_ERROR(gpus_.settle());
  const auto read_first = [&](std::size_t rank, DevicePasses& passes) -> Status {
    if (rank > 0) return {};
    PHUB_ASSIGN_OR_RETURN(read_, passes.states().read());
    return {};
  };
  PHUB_RETURN_IF_ERROR(gpus_.each(read_first));
  return read_;
}

Status GroupStatistics::share_if_needed(bool trains) {
  return !read_.empty() || (differ_ && !trains) ? share() : Status();
}

Status GroupStatistics::share() {
  if (read_.empty()) {
    PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto unused, read());
  }
  const auto copy = [&](std::size_t rank, DevicePasses& passes) -> Status {
    if (rank == 0) return {};
    PHUB_ASSIGN_OR_RETURN(const auto buffers, passes.states().read());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      std::copy(read_[i].values.begin(), read_[i].values.end(), buffers[i].values.begin());
    }
    return {};
  };
  PHUB_RETURN_IF_ERROR(gpus_.each(copy));
  read_.clear();
  differ_ = false;
  return {};
}

}  // namespace phub::nn::cuda
