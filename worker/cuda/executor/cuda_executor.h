// The executor of one GPU: parameters come layer by layer while forward runs, gradients leave layer
// by layer while backward runs.
//
// Passes are queued as wholes (device_passes.h). backward() then follows the device: it calls hooks
// when words that the device copies behind each layer's gradients arrive (step_status.h). One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "worker/cuda/executor/own_optimizer.h"
#include "worker/cuda/executor/parameter_exchange.h"
#include "worker/cuda/passes/device_passes.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

class CudaExecutor : public Executor {
 public:
  explicit CudaExecutor(std::unique_ptr<DevicePasses> passes) : passes_(std::move(passes)) {}
  ~CudaExecutor() override;  // waits for the device, until the timeout

  const std::vector<ParameterSpec>& parameters() const override { return passes_->parameters(); }
  Result<std::vector<StateBuffer>> read_buffers() override { return passes_->states().read(); }

  bool binds(DataType) const override { return true; }
  Status bind_typed(const TypedBindings& bindings) override;
  Result<ExportedMemoryPointer> export_gradients(std::size_t bytes) override;
  Status keep_parameters(std::span<const std::vector<float>> initial) override;
  Status update(const OwnRule& rule) override;

  std::uint32_t batch() const override { return passes_->options().batch; }
  std::size_t input_elements() const override { return passes_->input_elements(); }
  std::size_t output_elements() const override { return passes_->output_elements(); }

  void set_noise(std::uint64_t noise) override { passes_->feed().set_noise(noise); }
  Status load(std::span<const float> images, const Labels& labels) override {
    return passes_->feed().load(images, labels);
  }
  ByteInput* byte_input() override { return &passes_->feed(); }
  Status forward(Mode mode, Hooks& hooks) override;
  Status read_output(std::span<float> host) override { return passes_->read_output(host); }
  Status start_loss(const LossOptions& options) override { return passes_->start_loss(options); }
  Status backward(Hooks& hooks) override;
  Result<DeviceProfile> time_steps(std::uint32_t passes) override;

 private:
  Status bring(const PassSegment& segment, Hooks& hooks);
  Status queue_backward();
  Status tell_gradients(Hooks& hooks);

  std::unique_ptr<DevicePasses> passes_;
  std::unique_ptr<ParameterExchange> exchange_;  // one of the two
  std::unique_ptr<OwnOptimizer> own_;
  bool parameters_changed_ = true;
};

}  // namespace phub::nn::cuda
