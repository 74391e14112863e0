#include "worker/cuda/group/gpu_ranks.h"

#include <algorithm>
#include <thread>

#include "common/base/check.h"

namespace phub::nn::cuda {

GpuRanks::GpuRanks(std::vector<GpuRank> gpus, std::unique_ptr<Collectives> collectives,
                   std::chrono::milliseconds timeout, std::function<void(std::string_view)> note)
    : gpus_(std::move(gpus)),
      collectives_(std::move(collectives)),
      timeout_(timeout),
      note_(std::move(note)) {
  PHUB_CHECK(!gpus_.empty() && collectives_->ranks() == gpus_.size(), "a rank for each GPU");
}

GpuRanks::~GpuRanks() {
  collectives_.reset();
  for (GpuRank& gpu : gpus_) {
    static_cast<void>(gpu.passes->runtime().make_current());
    gpu.passes.reset();
  }
}

Status GpuRanks::ended_by(const Status& status) {
  if (status.ok() || !failed_.ok()) return failed_;
  failed_ = status;
  note_(status.message());  // at once: an abort may have to wait for a GPU
  collectives_->abort();
  return failed_;
}

Result<bool> GpuRanks::wait_told(std::size_t slot) {
  constexpr std::uint32_t kSpins = 256;  // between two looks at everything else
  const auto start = now();
  bool all_finite = true;
  for (std::size_t rank = 0; rank < count(); ++rank) {
    const StepStatus& status = gpus_[rank].passes->status();
    for (std::uint32_t spin = 1;; ++spin) {
      if (!failed_.ok()) return failed_;
      if (const auto finite = status.look(slot)) {
        all_finite = all_finite && *finite;
        break;
      }
      if (spin % kSpins != 0) continue;
      PHUB_ASSIGN_OR_RETURN(const auto busy, find_busy(start));
      if (!busy[rank] && !status.look(slot)) {
        return ended_by(of_gpu(gpus_[rank], status.never_told(slot)));
      }
      std::this_thread::yield();
    }
  }
  return all_finite;
}

Status GpuRanks::settle() {
  const auto start = now();
  for (;;) {
    if (!failed_.ok()) return failed_;
    PHUB_ASSIGN_OR_RETURN(const auto busy, find_busy(start));
    if (std::find(busy.begin(), busy.end(), true) == busy.end()) return {};
    std::this_thread::yield();
  }
}

bool GpuRanks::come_to_rest() {
  // What does not end is aborted.
  if (failed_.ok()) static_cast<void>(settle());
  const auto start = now();
  const auto is_busy = [](const GpuRank& gpu) {
    Runtime& runtime = gpu.passes->runtime();
    static_cast<void>(runtime.make_current());
    const auto idle = runtime.idle();
    return idle && !*idle;  // one that failed does nothing more
  };
  while (std::any_of(gpus_.begin(), gpus_.end(), is_busy)) {
    if (now() - start > timeout_) return false;
    std::this_thread::yield();
  }
  for (const GpuRank& gpu : gpus_) static_cast<void>(gpu.passes->come_to_rest());
  return true;
}

Result<std::vector<bool>> GpuRanks::find_busy(TimePoint start) {
  std::vector<bool> busy(count());
  std::string names;
  const auto look = [&](std::size_t rank, DevicePasses& passes) -> Status {
    PHUB_ASSIGN_OR_RETURN(const bool idle, passes.runtime().idle());
    busy[rank] = !idle;
    const std::string name = "GPU " + std::to_string(gpus_[rank].device);
    if (!idle) names += (names.empty() ? "" : ", ") + name;
    return {};
  };
  PHUB_RETURN_IF_ERROR(each(look));
  PHUB_RETURN_IF_ERROR(ended_by(collectives_->check()));
  if (names.empty() || now() - start < timeout_) return busy;
  return ended_by(
      {Code::kDeadlineExceeded,
       names +
           (count() > 1 ? ": did not finish their work within "
                        : ": did not finish its work within ") +
           std::to_string(timeout_.count()) +
           " ms (timeout_ms): one of them, or what they do together, hangs; the kernel's "
           "log names a GPU that failed (Xid), NCCL_DEBUG=INFO what NCCL waits for"});
}

}  // namespace phub::nn::cuda
