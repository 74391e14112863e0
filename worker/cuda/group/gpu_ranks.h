// The GPUs of a worker as one: work is queued on each in turn, and all are waited for together,
// until a deadline.
//
// Owned by the group of GPUs; its thread. After an error of a GPU or of a collective all is done
// for: what is queued is aborted, and every further call returns that error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/group/collectives.h"
#include "worker/cuda/passes/device_passes.h"

namespace phub::nn::cuda {

struct GpuRank {
  std::uint32_t device = 0;
  std::unique_ptr<DevicePasses> passes{};
};

// Errors name the GPU.
inline Status of_gpu(const GpuRank& gpu, const Status& status) {
  return status.ok() ? status : status.with_context("GPU " + std::to_string(gpu.device));
}

// Calls work(rank, passes) for each in turn, whose device is then the thread's, until one fails.
template <typename Work>
Status on_each(const std::vector<GpuRank>& gpus, const Work& work) {
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    DevicePasses& passes = *gpus[rank].passes;
    Status status = passes.runtime().make_current();
    if (status.ok()) status = work(rank, passes);
    if (!status.ok()) return of_gpu(gpus[rank], status);
  }
  return {};
}

class GpuRanks {
 public:
  // In the order of train.devices. REQUIRES: as many ranks of the collectives as GPUs, at least 1.
  // `note` is told of the first error.
  GpuRanks(std::vector<GpuRank> gpus, std::unique_ptr<Collectives> collectives,
           std::chrono::milliseconds timeout, std::function<void(std::string_view)> note);
  GpuRanks(const GpuRanks&) = delete;
  GpuRanks& operator=(const GpuRanks&) = delete;
  ~GpuRanks();  // REQUIRES: come_to_rest

  const std::vector<GpuRank>& all() const { return gpus_; }
  std::size_t count() const { return gpus_.size(); }
  DevicePasses& first() const { return *gpus_.front().passes; }
  Collectives& collectives() { return *collectives_; }

  // Calls `work` for each GPU (on_each). An error, of this or of what it is given, ends them all.
  template <typename Work>
  Status each(const Work& work) {
    return failed_.ok() ? ended_by(on_each(gpus_, work)) : failed_;
  }
  Status ended_by(const Status& status);
  // Until every GPU has told the slot: whether all was finite.
  Result<bool> wait_told(std::size_t slot);
  // Until no GPU has anything left to do.
  Status settle();
  // For the end, also after a failure: whether they all come to rest before the timeout.
  bool come_to_rest();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint now() const { return first().runtime().now(); }
  // By rank, at once. Errors end them all: of a GPU, of a collective, or as it takes too long.
  Result<std::vector<bool>> find_busy(TimePoint start);

  std::vector<GpuRank> gpus_;
  std::unique_ptr<Collectives> collectives_;
  const std::chrono::milliseconds timeout_;
  const std::function<void(std::string_view)> note_;
  Status failed_;  // the first error
};

}  // namespace phub::nn::cuda
