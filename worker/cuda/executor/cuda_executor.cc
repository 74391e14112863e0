#include "worker/cuda/executor/cuda_executor.h"

#include "common/base/check.h"
#include "worker/cuda/passes/step_times.h"

namespace phub::nn::cuda {

CudaExecutor::~CudaExecutor() {
  if (passes_->come_to_rest()) return;
  // A wait would have no end. The process keeps what the device may still write to.
  passes_->options().note(
      "the GPU still works on what failed: its memory is left to the end of the process");
  static_cast<void>(exchange_.release());
  static_cast<void>(own_.release());
  static_cast<void>(passes_.release());
}

Result<ExportedMemoryPointer> CudaExecutor::export_gradients(std::size_t bytes) {
  return passes_->runtime().exported_memory(bytes, "gradients");
}

Status CudaExecutor::bind_typed(const TypedBindings& bindings) {
  PHUB_CHECK(exchange_ == nullptr && own_ == nullptr, "bound once: captured passes have addresses");
  PHUB_RETURN_IF_ERROR(check_bindings(parameters(), bindings));
  PHUB_ASSIGN_OR_RETURN(exchange_, ParameterExchange::create(passes_->runtime(), passes_->runner(),
                                                             bindings, passes_->options().note));
  parameters_changed_ = true;
  return {};
}

Status CudaExecutor::keep_parameters(std::span<const std::vector<float>> initial) {
  const LoweredRunner& runner = passes_->runner();
  PHUB_ASSIGN_OR_RETURN(own_,
                        OwnOptimizer::create(passes_->runtime(), runner, parameters(), initial,
                                             runner.type_of(runner.lowered().output)));
  parameters_changed_ = false;
  return {};
}

Status CudaExecutor::update(const OwnRule& rule) {
  if (own_ == nullptr) return Executor::update(rule);
  return own_->update(rule, passes_->status().not_finite(StepStatus::kLossSlot));
}

Status CudaExecutor::forward(Mode mode, Hooks& hooks) {
  PHUB_CHECK(exchange_ != nullptr || own_ != nullptr, "bound before forward");
  const Pass pass = mode == Mode::kTraining ? Pass::kForward : Pass::kInference;
  const std::vector<PassSegment>& segments = passes_->schedule().segments(pass);
  PHUB_RETURN_IF_ERROR(passes_->begin_forward(pass));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (exchange_ != nullptr) PHUB_RETURN_IF_ERROR(bring(segments[i], hooks));
    PHUB_RETURN_IF_ERROR(passes_->run_segment(pass, i));
  }
  if (exchange_ != nullptr) parameters_changed_ = false;
  passes_->end_forward(pass);
  return {};
}

// What a segment needs is on its way when the segment is queued.
Status CudaExecutor::bring(const PassSegment& segment, Hooks& hooks) {
  for (const std::size_t layer : segment.layers) {
    const KeyRange& keys = passes_->schedule().layers[layer];
    PHUB_RETURN_IF_ERROR(hooks.weights_needed(keys));
    if (parameters_changed_) PHUB_RETURN_IF_ERROR(exchange_->upload(keys));
  }
  return parameters_changed_ ? passes_->follow(Stream::kCompute, Stream::kUpload) : Status();
}

Status CudaExecutor::backward(Hooks& hooks) {
  PHUB_RETURN_IF_ERROR(
      passes_->captured().queue(Pass::kBackward, 0, [&] { return queue_backward(); }));
  PHUB_RETURN_IF_ERROR(passes_->end_backward());
  PHUB_ASSIGN_OR_RETURN(const Loss loss, passes_->read_loss());
  PHUB_RETURN_IF_ERROR(hooks.loss_known(loss));
  return exchange_ != nullptr ? tell_gradients(hooks) : Status();
}

// The pass on kCompute; behind each layer's gradients their way to the host on kDownload, which
// ends before kCompute goes on.
Status CudaExecutor::queue_backward() {
  LoweredRunner& runner = passes_->runner();
  StepStatus& status = passes_->status();
  const PassSchedule& schedule = passes_->schedule();
  const std::vector<GradientMark>& marks = schedule.marks;
  std::size_t done = 0;
  for (std::size_t i = 0; exchange_ != nullptr && i < marks.size(); ++i) {
    const std::size_t end = marks[i].end, slot = StepStatus::gradient_slot(i);
    if (end > done) PHUB_RETURN_IF_ERROR(runner.run(Pass::kBackward, done, end));
    done = end;
    PHUB_RETURN_IF_ERROR(passes_->follow(Stream::kDownload, Stream::kCompute));
    PHUB_RETURN_IF_ERROR(
        exchange_->download(schedule.layers[marks[i].layer], status.not_finite(slot)));
    PHUB_RETURN_IF_ERROR(status.tell(slot, Stream::kDownload));
  }
  PHUB_RETURN_IF_ERROR(runner.run(Pass::kBackward, done, schedule.backward_steps));
  if (exchange_ == nullptr || marks.empty()) return {};
  return passes_->follow(Stream::kCompute, Stream::kDownload);
}

Status CudaExecutor::tell_gradients(Hooks& hooks) {
  parameters_changed_ = true;
  const PassSchedule& schedule = passes_->schedule();
  for (std::size_t i = 0; i < schedule.marks.size(); ++i) {
    const KeyRange& keys = schedule.layers[schedule.marks[i].layer];
    PHUB_ASSIGN_OR_RETURN(const bool finite, passes_->status().wait(StepStatus::gradient_slot(i)));
    exchange_->arrived(keys);
    PHUB_RETURN_IF_ERROR(hooks.grad_checked(keys, finite ? Finite::kYes : Finite::kNo));
  }
  return {};
}

Result<DeviceProfile> CudaExecutor::time_steps(std::uint32_t passes) {
  return cuda::time_steps(passes_->runtime(), passes_->runner(), passes);
}

}  // namespace phub::nn::cuda
