#include "worker/cuda/executor/cuda_executor.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "kernels/reduce.h"

namespace phub::nn::cuda {
namespace {

std::size_t index(Pass pass) { return static_cast<std::size_t>(pass); }

Result<std::vector<EventPointer>> make_events(Runtime& runtime, std::size_t count) {
  std::vector<EventPointer> events;
  for (std::size_t i = 0; i < count; ++i) {
    PHUB_ASSIGN_OR_RETURN(EventPointer event, runtime.make_event());
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace

CudaExecutor::CudaExecutor(const Graph& graph, const CudaExecutorOptions& options)
    : options_(options),
      input_(graph.input_shape()),
      classes_(graph.output_shape().elements()),
      layers_(layer_keys(graph)) {
  for (const Layer& layer : graph.layers()) {
    parameters_.insert(parameters_.end(), layer.parameters.begin(), layer.parameters.end());
  }
}

CudaExecutor::~CudaExecutor() {
  // Nothing may still write to memory that goes now. What went wrong was told before.
  if (!comes_to_rest()) {
    release();
    return;
  }
  for (const Stream stream : {Stream::kCompute, Stream::kUpload, Stream::kDownload}) {
    static_cast<void>(runtime_->synchronise(stream));
  }
}

bool CudaExecutor::comes_to_rest() {
  const auto end = runtime_->now() + options_.timeout;
  for (auto idle = runtime_->idle(); idle && !*idle; idle = runtime_->idle()) {
    if (runtime_->now() >= end) return false;
    std::this_thread::yield();
  }
  return true;  // one that failed does nothing more
}

// A wait would have no end. The process keeps what the device may still write to.
void CudaExecutor::release() {
  options_.note("the GPU still works on what failed: its memory is left to the end of the process");
  static_cast<void>(exchange_.release());
  static_cast<void>(own_.release());
  static_cast<void>(states_.release());
  static_cast<void>(feed_.release());
  static_cast<void>(status_.release());
  for (BlockPointer* block : {&host_output_, &losses_, &host_losses_}) {
    static_cast<void>(block->release());
  }
  for (auto* events : {&segment_events_, &mark_events_}) {
    for (EventPointer& event : *events) static_cast<void>(event.release());
  }
  for (EventPointer* event : {&loss_event_, &downloads_event_, &backward_event_}) {
    static_cast<void>(event->release());
  }
  for (auto& graphs : graphs_) {
    for (CapturedGraphPointer& graph : graphs) static_cast<void>(graph.release());
  }
  static_cast<void>(new ExportedMemoryPointer(std::move(exported_)));
  static_cast<void>(runner_.release());
  static_cast<void>(runtime_.release());
}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(const Graph& graph,
                                                           std::unique_ptr<Runtime> runtime,
                                                           std::unique_ptr<LoweredRunner> runner,
                                                           const CudaExecutorOptions& options) {
  // First of all, so that on errors too they go in the order in which an executor lets them go.
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(graph, options));
  executor->runtime_ = std::move(runtime);
  executor->runner_ = std::move(runner);
  PHUB_RETURN_IF_ERROR(executor->prepare(graph));
  return executor;
}

Status CudaExecutor::prepare(const Graph& graph) {
  const Shape& output = graph.output_shape();
  if (output.height != 1 || output.width != 1) {
    return Status(Code::kInvalidArgument,
                  "the network ends with " + std::to_string(output.height) + " x " +
                      std::to_string(output.width) +
                      " pixels: on a GPU end it with global_average_pool or inner_product");
  }
  const Lowered& lowered = runner_->lowered();
  PHUB_CHECK(lowered.parameters.size() == parameters_.size(), "the graph that was lowered");
  for (const Pass pass : {Pass::kForward, Pass::kInference}) {
    segments_[index(pass)] = forward_segments(lowered, pass, layers_, options_.segments);
    graphs_[index(pass)].resize(segments_[index(pass)].size());
  }
  graphs_[index(Pass::kBackward)].resize(1);
  marks_ = gradient_marks(lowered, layers_);
  PHUB_ASSIGN_OR_RETURN(status_,
                        StepStatus::create(*runtime_, 1 + marks_.size(), options_.timeout));
  PHUB_ASSIGN_OR_RETURN(feed_, BatchFeed::create(*runtime_, *runner_, graph, options_.batch));
  PHUB_ASSIGN_OR_RETURN(states_, StateMirror::create(*runtime_, *runner_));
  const std::size_t bytes = options_.batch * (sizeof(float) + sizeof(std::int32_t));
  PHUB_ASSIGN_OR_RETURN(losses_, runtime_->device_memory(bytes, "losses"));
  PHUB_ASSIGN_OR_RETURN(host_losses_, runtime_->pinned_memory(bytes, "losses"));
  PHUB_ASSIGN_OR_RETURN(segment_events_, make_events(*runtime_, options_.segments + 1));
  PHUB_ASSIGN_OR_RETURN(mark_events_, make_events(*runtime_, marks_.size()));
  for (EventPointer* event : {&loss_event_, &downloads_event_, &backward_event_}) {
    PHUB_ASSIGN_OR_RETURN(*event, runtime_->make_event());
  }
  return {};
}

Status CudaExecutor::bind(std::span<const Binding> bindings) {
  std::vector<TypedBinding> typed;
  for (const Binding& binding : bindings) {
    typed.push_back({std::as_bytes(binding.parameter), std::as_writable_bytes(binding.gradient)});
  }
  return bind_typed(DataType::kFloat32, typed);
}

Status CudaExecutor::bind_typed(DataType type, std::span<const TypedBinding> bindings) {
  return bind_exported(type, bindings, nullptr);
}

Result<ExportedMemoryPointer> CudaExecutor::export_gradients(std::size_t bytes) {
  return runtime_->exported_memory(bytes, "gradients");
}

Status CudaExecutor::bind_exported(DataType type, std::span<const TypedBinding> bindings,
                                   ExportedMemoryPointer exported) {
  PHUB_CHECK(bindings.size() == parameters_.size(), "one binding for each parameter");
  PHUB_CHECK(exchange_ == nullptr && own_ == nullptr, "bound once: captured passes have addresses");
  const auto where = exported != nullptr ? GradientsAt::kDevice : GradientsAt::kHost;
  PHUB_ASSIGN_OR_RETURN(exchange_, ParameterExchange::create(*runtime_, *runner_, {type, where},
                                                             bindings, options_.note));
  exported_ = std::move(exported);
  parameters_changed_ = true;
  return {};
}

Status CudaExecutor::keep_parameters(std::span<const std::vector<float>> initial) {
  const DataType gradient_type = runner_->type_of(runner_->lowered().output);
  PHUB_ASSIGN_OR_RETURN(
      own_, OwnOptimizer::create(*runtime_, *runner_, parameters_, initial, gradient_type));
  parameters_changed_ = false;
  return {};
}

Status CudaExecutor::update(const OwnRule& rule) {
  if (own_ == nullptr) return Executor::update(rule);
  return own_->update(rule, status_->not_finite(kLossSlot));
}

Status CudaExecutor::load(std::span<const float> images, std::span<const Label> labels) {
  return feed_->load(images, labels);
}

Status CudaExecutor::load_bytes(const ByteImages& images, std::span<const Label> labels) {
  return feed_->load_bytes(images, labels);
}

Status CudaExecutor::send_ahead(const ByteImages& images, std::span<const Label> labels) {
  return feed_->send_ahead(images, labels);
}

Status CudaExecutor::forward(Mode mode, Hooks& hooks) {
  PHUB_CHECK(exchange_ != nullptr || own_ != nullptr, "bound before forward");
  const Pass pass = mode == Mode::kTraining ? Pass::kForward : Pass::kInference;
  PHUB_RETURN_IF_ERROR(begin_forward(pass));
  for (std::size_t i = 0; i < segments_[index(pass)].size(); ++i) {
    const Segment& segment = segments_[index(pass)][i];
    if (exchange_ != nullptr) PHUB_RETURN_IF_ERROR(bring(segment, *segment_events_[i], hooks));
    PHUB_RETURN_IF_ERROR(run_segment(pass, i));
  }
  if (exchange_ != nullptr) parameters_changed_ = false;
  end_forward(pass);
  return {};
}

Status CudaExecutor::begin_forward(Pass pass) {
  PHUB_RETURN_IF_ERROR(states_->write_back());
  PHUB_RETURN_IF_ERROR(feed_->prepare());
  if (pass == Pass::kForward) PHUB_RETURN_IF_ERROR(feed_->send_noise(noise_));
  // The last backward may still be reading what comes now.
  return runtime_->wait(Stream::kUpload, *backward_event_);
}

Status CudaExecutor::run_segment(Pass pass, std::size_t i) {
  const Segment& segment = segments_[index(pass)][i];
  return repeat(graphs_[index(pass)][i], runs_[index(pass)] == 0,
                [&] { return runner_->run(pass, segment.first, segment.last); });
}

void CudaExecutor::end_forward(Pass pass) {
  ++runs_[index(pass)];
  last_forward_ = pass;
}

const std::vector<Segment>& CudaExecutor::segments(Pass pass) const {
  return segments_[index(pass)];
}

// What a segment needs is on its way when the segment is queued.
Status CudaExecutor::bring(const Segment& segment, Event& event, Hooks& hooks) {
  for (const std::size_t layer : segment.layers) {
    PHUB_RETURN_IF_ERROR(hooks.weights_needed(layers_[layer]));
    if (parameters_changed_) PHUB_RETURN_IF_ERROR(exchange_->upload(layers_[layer]));
  }
  if (!parameters_changed_) return {};
  PHUB_RETURN_IF_ERROR(runtime_->record(event, Stream::kUpload));
  return runtime_->wait(Stream::kCompute, event);
}

Status CudaExecutor::start_loss(const LossOptions& options) {
  PHUB_CHECK(feed_->labels() == options_.batch, "a label for each image");
  PHUB_CHECK(last_forward_ == Pass::kForward, "a forward in training");
  const Lowered& lowered = runner_->lowered();
  const BufferId logits = lowered.output;
  PHUB_RETURN_IF_ERROR(status_->begin());
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
          .scale =
              static_cast<float>(options.gradient_scale / static_cast<double>(options_.batch))},
      Stream::kCompute));
  PHUB_RETURN_IF_ERROR(feed_->labels_were_read());
  PHUB_RETURN_IF_ERROR(runtime_->record(*loss_event_, Stream::kCompute));
  PHUB_RETURN_IF_ERROR(runtime_->wait(Stream::kDownload, *loss_event_));
  PHUB_RETURN_IF_ERROR(
      runtime_->copy(host_losses_->address, losses_->address, losses_->bytes, Stream::kDownload));
  return status_->tell(kLossSlot, Stream::kDownload);
}

Result<Loss> CudaExecutor::read_loss() {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const bool finite, status_->wait(kLossSlot));
  const auto* losses = host_losses_->as<float>();
  const auto* correct = host_losses_->as<std::int32_t>(options_.batch * sizeof(float));
  Loss loss;
  for (std::size_t image = 0; image < options_.batch; ++image) {
    loss.sum += static_cast<double>(losses[image]);
    loss.correct += correct[image] != 0 ? 1 : 0;
  }
  return loss;
}

Status CudaExecutor::read_output(std::span<float> host) {
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

Status CudaExecutor::backward(Hooks& hooks) {
  PHUB_RETURN_IF_ERROR(repeat(graphs_[index(Pass::kBackward)].front(),
                              runs_[index(Pass::kBackward)] == 0,
                              [&] { return queue_backward(); }));
  PHUB_RETURN_IF_ERROR(end_backward());
  PHUB_ASSIGN_OR_RETURN(const Loss loss, read_loss());
  PHUB_RETURN_IF_ERROR(hooks.loss_known(loss));
  return exchange_ != nullptr ? tell_gradients(hooks) : Status();
}

void CudaExecutor::cut_backward(std::size_t parts) {
  graphs_[index(Pass::kBackward)].clear();
  graphs_[index(Pass::kBackward)].resize(parts);
}

Status CudaExecutor::run_backward(std::size_t part, std::size_t first, std::size_t last) {
  return repeat(graphs_[index(Pass::kBackward)][part], runs_[index(Pass::kBackward)] == 0,
                [&] { return runner_->run(Pass::kBackward, first, last); });
}

Status CudaExecutor::end_backward() {
  ++runs_[index(Pass::kBackward)];
  return runtime_->record(*backward_event_, Stream::kCompute);
}

// The pass on kCompute; behind each layer's gradients their way to the host on kDownload, which
// ends before kCompute goes on.
Status CudaExecutor::queue_backward() {
  std::size_t done = 0;
  for (std::size_t i = 0; exchange_ != nullptr && i < marks_.size(); ++i) {
    const GradientMark& mark = marks_[i];
    if (mark.end > done) PHUB_RETURN_IF_ERROR(runner_->run(Pass::kBackward, done, mark.end));
    done = mark.end;
    PHUB_RETURN_IF_ERROR(runtime_->record(*mark_events_[i], Stream::kCompute));
    PHUB_RETURN_IF_ERROR(runtime_->wait(Stream::kDownload, *mark_events_[i]));
    const std::size_t slot = kLossSlot + 1 + i;
    PHUB_RETURN_IF_ERROR(exchange_->download(layers_[mark.layer], status_->not_finite(slot)));
    PHUB_RETURN_IF_ERROR(status_->tell(slot, Stream::kDownload));
  }
  PHUB_RETURN_IF_ERROR(runner_->run(Pass::kBackward, done, runner_->lowered().backward.size()));
  if (exchange_ == nullptr || marks_.empty()) return {};
  PHUB_RETURN_IF_ERROR(runtime_->record(*downloads_event_, Stream::kDownload));
  return runtime_->wait(Stream::kCompute, *downloads_event_);
}

Status CudaExecutor::tell_gradients(Hooks& hooks) {
  parameters_changed_ = true;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const KeyRange& keys = layers_[marks_[i].layer];
    PHUB_ASSIGN_OR_RETURN(const bool finite, status_->wait(kLossSlot + 1 + i));
    exchange_->arrived(keys);
    PHUB_RETURN_IF_ERROR(hooks.grad_checked(keys, finite ? Finite::kYes : Finite::kNo));
  }
  return {};
}

Result<CapturedGraphPointer> CudaExecutor::capture(const std::function<Status()>& work) {
  PHUB_RETURN_IF_ERROR(runtime_->begin_capture());
  const Status queued = work();
  auto graph = runtime_->end_capture();  // also when something failed: it ends the capture
  if (!queued.ok()) return queued;
  return graph;
}

Status CudaExecutor::repeat(CapturedGraphPointer& graph, bool is_first,
                            const std::function<Status()>& work) {
  // Libraries load and set up kernels when they are first run, which cannot be captured.
  if (!options_.capture || is_first) return work();
  if (graph == nullptr) {
    auto made = capture(work);
    if (!made) {
      options_.capture = false;
      options_.note("passes are queued kernel by kernel, as they cannot be captured: " +
                    made.error().message());
      return work();
    }
    graph = std::move(*made);
  }
  return runtime_->launch(*graph);
}

}  // namespace phub::nn::cuda
