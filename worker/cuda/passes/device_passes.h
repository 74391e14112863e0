// The passes of a lowered network on one device, part by part. Parameters and gradients are brought
// and taken by who drives it: CudaExecutor, or GpuGroup for several devices at once.
//
// A forward is begin_forward, run_segment of each segment in order, end_forward. A backward, after
// start_loss, is all its steps, in parts that captured() queues (one, unless it is cut), then
// end_backward. Owns the runtime and the network; one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/passes/batch_feed.h"
#include "worker/cuda/passes/captured_passes.h"
#include "worker/cuda/passes/pass_schedule.h"
#include "worker/cuda/passes/state_mirror.h"
#include "worker/cuda/passes/step_status.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

struct DevicePassesOptions {
  std::uint32_t batch = 1;                    // as lowered
  bool capture = true;                        // passes as CUDA graphs
  std::chrono::milliseconds timeout{30'000};  // of a wait for the device
  std::size_t segments = 16;  // of a forward pass, at most: what can begin before all has come
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

class DevicePasses {
 public:
  // The runner's memory and steps are on the runtime's device. Errors: kInvalidArgument for a
  // network that ends with more than one pixel.
  static Result<std::unique_ptr<DevicePasses>> create(const Graph& graph,
                                                      std::unique_ptr<Runtime> runtime,
                                                      std::unique_ptr<LoweredRunner> runner,
                                                      const DevicePassesOptions& options);
  ~DevicePasses() { static_cast<void>(come_to_rest()); }
  // Whether the device has nothing left to do before the timeout. If not, it may still write to all
  // that this and its driver own: then neither can be destroyed.
  bool come_to_rest();

  const DevicePassesOptions& options() const { return options_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const PassSchedule& schedule() const { return schedule_; }
  std::size_t input_elements() const { return options_.batch * input_.elements(); }
  std::size_t output_elements() const { return options_.batch * classes_; }

  Runtime& runtime() const { return *runtime_; }
  LoweredRunner& runner() const { return *runner_; }
  StepStatus& status() const { return *status_; }
  BatchFeed& feed() const { return *feed_; }
  CapturedPasses& captured() { return captured_; }
  StateMirror& states() const { return *states_; }

  // What is queued on `later` from now on comes after what is on `earlier`. May be captured.
  Status follow(Stream later, Stream earlier);

  Status begin_forward(Pass pass);
  Status run_segment(Pass pass, std::size_t index);
  void end_forward(Pass pass);
  Status read_output(std::span<float> host);  // of the last forward; waits for it

  Status start_loss(const LossOptions& options);
  Result<Loss> read_loss();  // waits for it
  Status end_backward();

 private:
  DevicePasses(const Graph& graph, std::unique_ptr<Runtime> runtime,
               std::unique_ptr<LoweredRunner> runner, const DevicePassesOptions& options);

  Status prepare(const Graph& graph);

  const DevicePassesOptions options_;
  Shape input_;
  std::size_t classes_;
  std::vector<ParameterSpec> parameters_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LoweredRunner> runner_;
  PassSchedule schedule_;

  CapturedPasses captured_;
  std::unique_ptr<StepStatus> status_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<StateMirror> states_;
  BlockPointer losses_, host_losses_;  // [batch] fp32, then [batch] whether it is right
  BlockPointer host_output_;           // of either pass; made when it is asked for
  EventPointer reached_[kStreams];     // what follow() waits for, of each stream
  EventPointer backward_event_;        // the last backward's end
  Pass last_forward_ = Pass::kForward;
};

}  // namespace phub::nn::cuda
