#include "worker/cuda/passes/step_status.h"

#include <atomic>
#include <bit>
#include <string>
#include <thread>

namespace phub::nn::cuda {
namespace {

static_assert(sizeof(StatusWord) == sizeof(std::uint64_t));

StatusWord read(std::uint64_t* word) {
  const std::uint64_t bits = std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
  return std::bit_cast<StatusWord>(bits);
}

}  // namespace

Result<std::unique_ptr<StepStatus>> StepStatus::create(Runtime& runtime, std::size_t slots,
                                                       std::chrono::milliseconds timeout) {
  std::unique_ptr<StepStatus> status(new StepStatus(runtime, timeout));
  status->slots_ = slots;
  const std::size_t bytes = slots * sizeof(StatusWord);
  const std::string what = "a step's status";
  PHUB_ASSIGN_OR_RETURN(status->device_, runtime.device_memory(bytes, what));
  PHUB_ASSIGN_OR_RETURN(status->told_, runtime.pinned_memory(bytes, what));
  PHUB_ASSIGN_OR_RETURN(status->fresh_, runtime.pinned_memory(2 * bytes, what));
  for (EventPointer& event : status->sent_) {
    PHUB_ASSIGN_OR_RETURN(event, runtime.make_event());
  }
  return status;
}

Status StepStatus::begin() {
  ++step_;
  Event& sent = *sent_[step_ % 2];
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(sent));
  const std::size_t bytes = slots_ * sizeof(StatusWord);
  auto* fresh = fresh_->as<StatusWord>(step_ % 2 * bytes);
  for (std::size_t slot = 0; slot < slots_; ++slot) fresh[slot] = {step_, 0};
  PHUB_RETURN_IF_ERROR(runtime_.copy(device_->address, fresh, bytes, Stream::kCompute));
  return runtime_.record(sent, Stream::kCompute);
}

int* StepStatus::not_finite(std::size_t slot) const {
  return &device_->as<StatusWord>()[slot].not_finite;
}

Status StepStatus::tell(std::size_t slot, Stream stream) {
  const std::size_t offset = slot * sizeof(StatusWord);
  return runtime_.copy(told_->as<std::byte>(offset), device_->as<std::byte>(offset),
                       sizeof(StatusWord), stream);
}

std::optional<bool> StepStatus::look(std::size_t slot) const {
  const StatusWord told = read(told_->as<std::uint64_t>(slot * sizeof(StatusWord)));
  return told.step == step_ ? std::optional(told.not_finite == 0) : std::nullopt;
}

Status StepStatus::never_told(std::size_t slot) const {
  return {Code::kInternal, "the GPU has done all its work and told nothing of slot " +
                               std::to_string(slot) + " of step " + std::to_string(step_)};
}

Result<bool> StepStatus::wait(std::size_t slot) {
  constexpr std::uint32_t kSpins = 256;  // between two questions whether the device has failed
  const auto end = runtime_.now() + timeout_;
  for (std::uint32_t spin = 1;; ++spin) {
    if (const auto finite = look(slot)) return *finite;
    if (spin % kSpins != 0) continue;
    PHUB_ASSIGN_OR_RETURN(const bool idle, runtime_.idle());
    if (idle && !look(slot)) return never_told(slot);
    if (runtime_.now() >= end) {
      return Status(Code::kDeadlineExceeded,
                    "the GPU did not finish its work within " + std::to_string(timeout_.count()) +
                        " ms (timeout_ms): it hangs, or others take all of its time; the kernel's "
                        "log names a GPU that failed (Xid)");
    }
    std::this_thread::yield();
  }
}

}  // namespace phub::nn::cuda
