// A step of several GPUs: what is queued for all of them in what order, and how the host waits.
#include <algorithm>
#include <string>
#include <thread>

#include "common/base/check.h"
#include "worker/cuda/group/gpu_group.h"

namespace phub::nn::cuda {

Status GpuGroup::forward(Mode mode, Hooks& hooks) {
  PHUB_CHECK(exchange_ != nullptr || !own_.empty(), "bound before forward");
  const bool trains = mode == Mode::kTraining;
  if (!statistics_.empty() || (statistics_differ_ && !trains)) {
    PHUB_RETURN_IF_ERROR(share_statistics());
  }
  const Pass pass = trains ? Pass::kForward : Pass::kInference;
  PHUB_RETURN_IF_ERROR(
      each([&](std::size_t, CudaExecutor& executor) { return executor.begin_forward(pass); }));
  brought_.assign(brought_.size(), false);
  for (std::size_t i = 0; i < first().segments(pass).size(); ++i) {
    PHUB_RETURN_IF_ERROR(run_segment(pass, i, hooks));
  }
  if (exchange_ != nullptr) parameters_changed_ = false;
  for (GpuRank& gpu : gpus_) gpu.executor->end_forward(pass);
  statistics_differ_ = statistics_differ_ || (trains && n() > 1);
  return {};
}

// What a segment needs is on its way when the segment is queued.
Status GpuGroup::run_segment(Pass pass, std::size_t segment, Hooks& hooks) {
  if (exchange_ != nullptr) {
    for (const std::size_t layer : first().segments(pass)[segment].layers) {
      const std::size_t group = group_of_[layer];
      if (!brought_[group]) PHUB_RETURN_IF_ERROR(bring(group, hooks));
      brought_[group] = true;
    }
  }
  return each([&](std::size_t rank, CudaExecutor& executor) -> Status {
    if (exchange_ != nullptr && parameters_changed_) {
      Event& uploaded = *events_[rank].upload;
      PHUB_RETURN_IF_ERROR(executor.runtime().record(uploaded, Stream::kUpload));
      PHUB_RETURN_IF_ERROR(executor.runtime().wait(Stream::kCompute, uploaded));
    }
    return executor.run_segment(pass, segment);
  });
}

Status GpuGroup::bring(std::size_t group, Hooks& hooks) {
  for (const std::size_t layer : exchange_->parameters().regions()[group].layers) {
    PHUB_RETURN_IF_ERROR(hooks.weights_needed(first().layers()[layer]));
  }
  return parameters_changed_ ? ended_by(exchange_->upload(group)) : Status();
}

Status GpuGroup::backward(Hooks& hooks) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    PHUB_RETURN_IF_ERROR(queue_part(part));
  }
  const auto end = [&](std::size_t rank, CudaExecutor& executor) -> Status {
    Event& downloaded = *events_[rank].downloads;
    PHUB_RETURN_IF_ERROR(executor.runtime().record(downloaded, Stream::kDownload));
    PHUB_RETURN_IF_ERROR(executor.runtime().wait(Stream::kCompute, downloaded));
    return executor.end_backward();
  };
  PHUB_RETURN_IF_ERROR(each(end));
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool finite, wait_told(CudaExecutor::kLossSlot));
  Loss sum;
  const auto take_loss = [&](std::size_t, CudaExecutor& executor) -> Status {
    PHUB_ASSIGN_OR_RETURN(const Loss loss, executor.read_loss());
    sum.sum += loss.sum;
    sum.correct += loss.correct;
    return {};
  };
  PHUB_RETURN_IF_ERROR(each(take_loss));
  PHUB_RETURN_IF_ERROR(hooks.loss_known(sum));
  return exchange_ != nullptr ? tell_gradients(hooks) : Status();
}

// The part on kCompute of every GPU; behind it, on kDownload, the gradients that it has completed.
Status GpuGroup::queue_part(std::size_t part) {
  const Segment& steps = parts_[part];
  const auto compute = [&](std::size_t rank, CudaExecutor& executor) -> Status {
    if (steps.first < steps.last) {
      PHUB_RETURN_IF_ERROR(executor.run_backward(part, steps.first, steps.last));
    }
    Event& computed = *events_[rank].part;
    PHUB_RETURN_IF_ERROR(executor.runtime().record(computed, Stream::kCompute));
    return executor.runtime().wait(Stream::kDownload, computed);
  };
  PHUB_RETURN_IF_ERROR(each(compute));
  if (exchange_ == nullptr || steps.layers.empty()) return {};
  return ended_by(exchange_->download(part, slot_of(part)));
}

Status GpuGroup::tell_gradients(Hooks& hooks) {
  parameters_changed_ = true;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].layers.empty()) continue;
    PHUB_ASSIGN_OR_RETURN(const bool finite, wait_told(slot_of(part)));
    exchange_->arrived(part);
    for (const std::size_t layer : parts_[part].layers) {
      PHUB_RETURN_IF_ERROR(
          hooks.grad_checked(first().layers()[layer], finite ? Finite::kYes : Finite::kNo));
    }
  }
  return {};
}

Result<bool> GpuGroup::wait_told(std::size_t slot) {
  constexpr std::uint32_t kSpins = 256;  // between two looks at everything else
  const auto start = now();
  bool all_finite = true;
  for (std::size_t rank = 0; rank < n(); ++rank) {
    const StepStatus& status = gpus_[rank].executor->status();
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

Status GpuGroup::settle() {
  const auto start = now();
  for (;;) {
    if (!failed_.ok()) return failed_;
    PHUB_ASSIGN_OR_RETURN(const auto busy, find_busy(start));
    if (std::find(busy.begin(), busy.end(), true) == busy.end()) return {};
    std::this_thread::yield();
  }
}

bool GpuGroup::come_to_rest() {
  const auto start = now();
  const auto is_busy = [](GpuRank& gpu) {
    Runtime& runtime = gpu.executor->runtime();
    static_cast<void>(runtime.make_current());
    const auto idle = runtime.idle();
    return idle && !*idle;  // one that failed does nothing more
  };
  while (std::any_of(gpus_.begin(), gpus_.end(), is_busy)) {
    if (now() - start > options_.timeout) return false;
    std::this_thread::yield();
  }
  return true;
}

Result<std::vector<bool>> GpuGroup::find_busy(TimePoint start) {
  std::vector<bool> busy(n());
  std::string names;
  const auto look = [&](std::size_t rank, CudaExecutor& executor) -> Status {
    PHUB_ASSIGN_OR_RETURN(const bool idle, executor.runtime().idle());
    busy[rank] = !idle;
    const std::string name = "GPU " + std::to_string(gpus_[rank].device);
    if (!idle) names += (names.empty() ? "" : ", ") + name;
    return {};
  };
  PHUB_RETURN_IF_ERROR(each(look));
  PHUB_RETURN_IF_ERROR(ended_by(collectives_->check()));
  if (names.empty() || now() - start < options_.timeout) return busy;
  return ended_by(
      {Code::kDeadlineExceeded,
       names +
           (n() > 1 ? ": did not finish their work within " : ": did not finish its work within ") +
           std::to_string(options_.timeout.count()) +
           " ms (timeout_ms): one of them, or what they do together, hangs; the kernel's "
           "log names a GPU that failed (Xid), NCCL_DEBUG=INFO what NCCL waits for"});
}

}  // namespace phub::nn::cuda
