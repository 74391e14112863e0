// An executor whose network is made anew for images of another size, with the same parameters. The
// trainer, the exchange and checkpoints know this one alone.
//
// Owned and called by the trainer's thread. After an error of change_to it can only be destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/executor.h"

namespace phub::train {

class StagedExecutor final : public nn::Executor {
 public:
  using Make = std::function<Result<std::unique_ptr<nn::Executor>>(const nn::Graph& graph)>;

  // Errors: those of `make`.
  static Result<std::unique_ptr<StagedExecutor>> create(const nn::Graph& graph, Make make);

  // Frees the network and makes that of `graph`. It has the bindings and the buffers of before; a
  // batch that was loaded is gone. REQUIRES: a graph with the same parameters; no pass is under
  // way. Errors: those of `make`, and of a device whose buffers cannot be read.
  Status change_to(const nn::Graph& graph);

  const std::vector<nn::ParameterSpec>& parameters() const override { return parameters_; }
  Result<std::vector<nn::StateBuffer>> read_buffers() override;

  Status bind(std::span<const nn::Binding> bindings) override;
  bool binds(DataType type) const override { return network_->binds(type); }
  // Not of exported memory, which would go with the network.
  Status bind_typed(const nn::TypedBindings& bindings) override;
  Result<ExportedMemoryPointer> export_gradients(std::size_t bytes) override;

  nn::FeatureMaps feature_maps() const override { return network_->feature_maps(); }
  std::uint32_t batch() const override { return network_->batch(); }
  std::size_t input_elements() const override { return network_->input_elements(); }
  std::size_t output_elements() const override { return network_->output_elements(); }

  void set_noise(std::uint64_t noise) override { network_->set_noise(noise); }
  Status load(std::span<const float> images, const nn::Labels& labels) override {
    return network_->load(images, labels);
  }
  nn::ByteInput* byte_input() override { return network_->byte_input(); }
  Status forward(nn::Mode mode, nn::Hooks& hooks) override {
    held_.clear();
    return network_->forward(mode, hooks);
  }
  Status read_output(std::span<float> host) override { return network_->read_output(host); }
  Status start_loss(const nn::LossOptions& options) override {
    return network_->start_loss(options);
  }
  Status backward(nn::Hooks& hooks) override { return network_->backward(hooks); }

 private:
  explicit StagedExecutor(Make make) : make_(std::move(make)) {}

  Status bind_again();

  const Make make_;
  std::unique_ptr<nn::Executor> network_;
  std::vector<nn::ParameterSpec> parameters_;
  // What the host has read, and perhaps written, since the last forward. A device reads no such
  // values from the host before its next forward, so they must not be read from it again.
  std::vector<nn::StateBuffer> held_;
  std::vector<nn::Binding> bindings_;  // or typed ones, or none
  std::vector<nn::TypedBinding> typed_;
  DataType type_ = DataType::kFloat32;  // of the typed ones
};

}  // namespace phub::train
