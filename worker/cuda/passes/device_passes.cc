#include "worker/cuda/passes/device_passes.h"

#include <string>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "kernels/reduce.h"

namespace phub::nn::cuda {

DevicePasses::DevicePasses(const Graph& graph, std::unique_ptr<Runtime> runtime,
                           std::unique_ptr<LoweredRunner> runner,
                           const DevicePassesOptions& options)
    : options_(options),
      input_(graph.input_shape()),
      classes_(graph.output_shape().elements()),
      runtime_(std::move(runtime)),
      runner_(std::move(runner)),
      schedule_(make_schedule(graph, runner_->lowered(), options.segments)),
      captured_(*runtime_, options.capture, options.note) {
  for (const Layer& layer : graph.layers()) {
    parameters_.insert(parameters_.end(), layer.parameters.begin(), layer.parameters.end());
  }
  PHUB_CHECK(runner_->lowered().parameters.size() == parameters_.size(),
             "the graph that was lowered");
}

Result<std::unique_ptr<DevicePasses>> DevicePasses::create(const Graph& graph,
                                                           std::unique_ptr<Runtime> runtime,
                                                           std::unique_ptr<LoweredRunner> runner,
                                                           const DevicePassesOptions& options) {
  const Shape& output = graph.output_shape();
  std::unique_ptr<DevicePasses> passes(
      new DevicePasses(graph, std::move(runtime), std::move(runner), options));
  if (output.height != 1 || output.width != 1) {
    return Status(Code::kInvalidArgument,
                  "the network ends with " + std::to_string(output.height) + " x " +
                      std::to_string(output.width) +
                      " pixels: on a GPU end it with global_average_pool or inner_product");
  }
  PHUB_RETURN_IF_ERROR(passes->prepare(graph));
  return passes;
}

Status DevicePasses::prepare(const Graph& graph) {
  for (const Pass pass : {Pass::kForward, Pass::kInference}) {
    captured_.cut(pass, schedule_.segments(pass).size());
  }
  captured_.cut(Pass::kBackward, 1);
  PHUB_ASSIGN_OR_RETURN(
      status_, StepStatus::create(*runtime_, StepStatus::gradient_slot(schedule_.marks.size()),
                                  options_.timeout));
  PHUB_ASSIGN_OR_RETURN(feed_, BatchFeed::create(*runtime_, *runner_, graph, options_.batch));
  PHUB_ASSIGN_OR_RETURN(states_, StateMirror::create(*runtime_, *runner_));
  const std::size_t bytes = options_.batch * (sizeof(float) + sizeof(std::int32_t));
  PHUB_ASSIGN_OR_RETURN(losses_, runtime_->device_memory(bytes, "losses"));
  PHUB_ASSIGN_OR_RETURN(host_losses_, runtime_->pinned_memory(bytes, "losses"));
  for (EventPointer& event : reached_) {
    PHUB_ASSIGN_OR_RETURN(event, runtime_->make_event());
  }
  PHUB_ASSIGN_OR_RETURN(backward_event_, runtime_->make_event());
  return {};
}

bool DevicePasses::come_to_rest() {
  const auto end = runtime_->now() + options_.timeout;
  for (auto idle = runtime_->idle(); idle && !*idle; idle = runtime_->idle()) {
    if (runtime_->now() >= end) return false;
    std::this_thread::yield();
  }
  // One that failed does nothing more. What went wrong was told before.
  for (const Stream stream : {Stream::kCompute, Stream::kUpload, Stream::kDownload}) {
    static_cast<void>(runtime_->synchronise(stream));
  }
  return true;
}

Status DevicePasses::follow(Stream later, Stream earlier) {
  Event& reached = *reached_[static_cast<std::size_t>(earlier)];
  PHUB_RETURN_IF_ERROR(runtime_->record(reached, earlier));
  return runtime_->wait(later, reached);
}

Status DevicePasses::begin_forward(Pass pass) {
  PHUB_RETURN_IF_ERROR(states_->write_back());
  PHUB_RETURN_IF_ERROR(feed_->prepare());
  if (pass == Pass::kForward) PHUB_RETURN_IF_ERROR(feed_->send_noise());
  // The last backward may still be reading what comes now.
  return runtime_->wait(Stream::kUpload, *backward_event_);
}

Status DevicePasses::run_segment(Pass pass, std::size_t index) {
  const PassSegment& segment = schedule_.segments(pass)[index];
  return captured_.queue(pass, index,
                         [&] { return runner_->run(pass, segment.first, segment.last); });
}

void DevicePasses::end_forward(Pass pass) {
  captured_.end_run(pass);
  last_forward_ = pass;
}

Status DevicePasses::read_output(std::span<float> host) {
  PHUB_CHECK(host.size() == output_elements(), "the output of the whole batch");
  const Lowered& lowered = runner_->lowered();
  const BufferId output =
      last_forward_ == Pass::kForward ? lowered.output : lowered.inference_output;
  const DataType type = runner_->type_of(output);
  const auto padded = static_cast<std::size_t>(lowered.buffer(output).dimensions[1]);
  const std::size_t bytes = options_.batch * padded * size_of(type);
  if (host_output_ == nullptr) {
    PHUB_ASSIGN_OR_RETURN(host_output_, runtime_->pinned_memory(bytes, "the output"));
  }
  PHUB_RETURN_IF_ERROR(
      runtime_->copy(host_output_->address, runner_->address(output), bytes, Stream::kCompute));
  PHUB_RETURN_IF_ERROR(runtime_->synchronise(Stream::kCompute));
  for (std::size_t image = 0; image < options_.batch; ++image) {
    kernels::convert(reinterpret_cast<std::byte*>(host.data() + image * classes_),
                     DataType::kFloat32,
                     host_output_->as<std::byte>(image * padded * size_of(type)), type, classes_);
  }
  return {};
}

Status DevicePasses::start_loss(const LossOptions& options) {
  PHUB_CHECK(feed_->labels() == options_.batch, "a label for each image");
  PHUB_CHECK(last_forward_ == Pass::kForward, "a forward in training");
  PHUB_RETURN_IF_ERROR(status_->begin());
  const Lowered& lowered = runner_->lowered();
  const BufferId logits = lowered.output;
  PHUB_RETURN_IF_ERROR(runtime_->launch(
      kernels::cuda::SoftmaxLoss{
          .logits = runner_->address(logits),
          .labels = feed_->device_labels(),
          .gradient = runner_->address(lowered.output_gradient),
          .loss = losses_->as<float>(),
          .correct = losses_->as<std::int32_t>(options_.batch * sizeof(float)),
          .type = runner_->type_of(logits),
          .images = static_cast<std::int64_t>(options_.batch),
          .classes = static_cast<std::int64_t>(classes_),
          .padded_classes = lowered.buffer(logits).dimensions[1],
          .smoothing = options.label_smoothing,
          .scale = static_cast<float>(options.gradient_scale / static_cast<double>(options_.batch)),
          .second_labels = feed_->device_second_labels(),
          .label_shares = feed_->device_shares()},
      Stream::kCompute));
  PHUB_RETURN_IF_ERROR(feed_->labels_were_read());
  PHUB_RETURN_IF_ERROR(follow(Stream::kDownload, Stream::kCompute));
  PHUB_RETURN_IF_ERROR(
      runtime_->copy(host_losses_->address, losses_->address, losses_->bytes, Stream::kDownload));
  return status_->tell(StepStatus::kLossSlot, Stream::kDownload);
}

Result<Loss> DevicePasses::read_loss() {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool finite, status_->wait(StepStatus::kLossSlot));
  const auto* losses = host_losses_->as<float>();
  const auto* correct = host_losses_->as<std::int32_t>(options_.batch * sizeof(float));
  Loss loss;
  for (std::size_t image = 0; image < options_.batch; ++image) {
    loss.sum += static_cast<double>(losses[image]);
    loss.correct += correct[image] != 0 ? 1 : 0;
  }
  return loss;
}

Status DevicePasses::end_backward() {
  captured_.end_run(Pass::kBackward);
  return runtime_->record(*backward_event_, Stream::kCompute);
}

}  // namespace phub::nn::cuda
