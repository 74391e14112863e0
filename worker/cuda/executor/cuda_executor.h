// A lowered network as an Executor: parameters come layer by layer while forward runs, gradients
// leave layer by layer while backward runs.
//
// Passes are queued as wholes, from their second run on as CUDA graphs. backward()
// then follows the device: it calls hooks when words that the device copies behind each layer's
// gradients arrive (step_status.h). Owns the runtime and the network; one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "worker/cuda/executor/batch_feed.h"
#include "worker/cuda/executor/own_optimizer.h"
#include "worker/cuda/executor/parameter_exchange.h"
#include "worker/cuda/executor/pass_schedule.h"
#include "worker/cuda/executor/state_mirror.h"
#include "worker/cuda/executor/step_status.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

struct CudaExecutorOptions {
  std::uint32_t batch = 1;                    // as lowered
  bool capture = true;                        // passes as graphs
  std::chrono::milliseconds timeout{30'000};  // of a wait for the device
  std::size_t segments = 16;  // of a forward pass, at most: what can begin before all has come
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

class CudaExecutor : public Executor {
 public:
  // The runner's memory and steps are on the runtime's device. Errors: kInvalidArgument for a
  // network that ends with more than one pixel.
  static Result<std::unique_ptr<CudaExecutor>> create(const Graph& graph,
                                                      std::unique_ptr<Runtime> runtime,
                                                      std::unique_ptr<LoweredRunner> runner,
                                                      const CudaExecutorOptions& options);
  ~CudaExecutor() override;  // waits for the device, until the timeout

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  Result<std::vector<nn::Buffer>> read_buffers() override { return states_->read(); }

  Status bind(std::span<const Binding> bindings) override;
  bool binds(DataType) const override { return true; }
  Status bind_typed(DataType type, std::span<const TypedBinding> bindings) override;
  Result<ExportedMemoryPointer> export_gradients(std::size_t bytes) override;
  Status bind_exported(DataType type, std::span<const TypedBinding> bindings,
                       ExportedMemoryPointer exported) override;
  Status keep_parameters(std::span<const std::vector<float>> initial) override;
  Status update(const OwnRule& rule) override;

  std::uint32_t batch() const override { return options_.batch; }
  std::size_t input_elements() const override { return options_.batch * input_.elements(); }
  std::size_t output_elements() const override { return options_.batch * classes_; }

  void set_noise(std::uint64_t noise) override { noise_ = noise; }
  Status load(std::span<const float> images, std::span<const Label> labels) override;
  bool loads_bytes() const override { return true; }
  Status load_bytes(const ByteImages& images, std::span<const Label> labels) override;
  Result<std::span<std::uint8_t>> pixels_ahead() override { return feed_->pixels_ahead(); }
  Status send_ahead(const ByteImages& images, std::span<const Label> labels) override;
  Status load_ahead() override { return feed_->load_ahead(); }
  Status forward(Mode mode, Hooks& hooks) override;
  Status read_output(std::span<float> host) override;
  Status start_loss(const LossOptions& options) override;
  Status backward(Hooks& hooks) override;
  Result<DeviceProfile> time_steps(std::uint32_t passes) override;

  // In parts, for who drives several of them and brings parameters and gradients himself
  // (gpu_group.h). A forward is begin_forward, run_segment of each in order, end_forward. A
  // backward, after start_loss, is run_backward of all steps in as many parts as cut_backward said,
  // end_backward.
  static constexpr std::size_t kLossSlot = 0;  // of the status; then one for each mark
  Runtime& runtime() { return *runtime_; }
  const LoweredRunner& runner() const { return *runner_; }
  StepStatus& status() { return *status_; }
  const std::vector<KeyRange>& layers() const { return layers_; }
  const std::vector<GradientMark>& marks() const { return marks_; }
  const std::vector<Segment>& segments(Pass pass) const;
  Status begin_forward(Pass pass);
  Status run_segment(Pass pass, std::size_t index);
  void end_forward(Pass pass);
  void cut_backward(std::size_t parts);
  Status run_backward(std::size_t part, std::size_t first, std::size_t last);
  Status end_backward();
  Result<Loss> read_loss();  // waits for it

 private:
  CudaExecutor(const Graph& graph, const CudaExecutorOptions& options);

  Status prepare(const Graph& graph);
  bool comes_to_rest();
  void release();
  Status bring(const Segment& segment, Event& event, Hooks& hooks);
  Status queue_backward();
  Status tell_gradients(Hooks& hooks);
  // Queues the work, from the second time on as a graph.
  Status repeat(CapturedGraphPointer& graph, bool is_first, const std::function<Status()>& work);
  Result<CapturedGraphPointer> capture(const std::function<Status()>& work);

  CudaExecutorOptions options_;
  Shape input_;
  std::size_t classes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<KeyRange> layers_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LoweredRunner> runner_;

  std::vector<Segment> segments_[kPasses];  // of kForward and kInference
  std::vector<GradientMark> marks_;
  std::unique_ptr<StepStatus> status_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<StateMirror> states_;
  ExportedMemoryPointer exported_;               // null: gradients are copied to the host
  std::unique_ptr<ParameterExchange> exchange_;  // one of the two
  std::unique_ptr<OwnOptimizer> own_;
  BlockPointer host_output_;           // of either pass; made when it is asked for
  BlockPointer losses_, host_losses_;  // [batch] fp32, then [batch] whether it is right
  std::vector<EventPointer> segment_events_, mark_events_;
  EventPointer loss_event_, downloads_event_, backward_event_;

  std::vector<CapturedGraphPointer> graphs_[kPasses];
  std::array<std::uint64_t, kPasses> runs_ = {};
  std::uint64_t noise_ = 0;
  Pass last_forward_ = Pass::kForward;
  bool parameters_changed_ = true;
};

}  // namespace phub::nn::cuda
