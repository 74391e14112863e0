// A graph made runnable on a backend (ops.h) for one batch size: the executor of CPUs.
//
// Owns its activations; parameters and gradients are bound from outside. Used by one thread, the
// backend's. Hooks are called when their layer's turn comes: nothing is queued.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"
#include "worker/nn/ops.h"

namespace phub::nn {

struct NetworkOptions {
  std::uint32_t batch = 1;
  bool input_gradient = false;  // also computes the gradient by the network's input (for tests)
};

class Network : public Executor {
 public:
  // The backend outlives it.
  static Result<std::unique_ptr<Network>> create(const Graph& graph, Backend& backend,
                                                 const NetworkOptions& options);
  // With a backend of its own.
  static Result<std::unique_ptr<Network>> create(const Graph& graph,
                                                 std::unique_ptr<Backend> backend,
                                                 const NetworkOptions& options);

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  std::vector<StateBuffer> buffers();
  Result<std::vector<StateBuffer>> read_buffers() override { return buffers(); }

  Status bind(std::span<const Binding> bindings) override;

  bool observe(LayerObserver* observer) override {
    observer_ = observer;
    return true;
  }
  FeatureMaps feature_maps() const override;

  std::uint32_t batch() const override { return batch_; }
  Tensor& input() { return *tensors_.front(); }
  Tensor& output() { return *tensors_.back(); }
  std::size_t input_elements() const override { return tensors_.front()->elements(); }
  std::size_t output_elements() const override { return tensors_.back()->elements(); }

  void set_noise(std::uint64_t noise) override { backend_->set_noise(noise); }
  Status load(std::span<const float> images, const Labels& labels) override;
  // input() -> output(). REQUIRES: bound.
  Status forward(Mode mode, Hooks& hooks) override;
  Status read_output(std::span<float> host) override;
  Status start_loss(const LossOptions& options) override;
  // output()'s gradient -> every parameter's gradient, whoever wrote it. REQUIRES: a forward in
  // training mode.
  Status backward(Hooks& hooks) override;

 private:
  struct Step {
    std::unique_ptr<Op> op;
    KeyRange keys;
    std::vector<std::unique_ptr<Op>> accumulate;  // run after the op's backward
  };

  // Runs one of a layer's ops, observed.
  template <typename Run>
  Status run(LayerPass pass, std::size_t layer, Run op) {
    if (observer_ == nullptr) return op();
    observer_->begin(pass, layer);
    PHUB_RETURN_IF_ERROR(op());
    observer_->end(pass, layer);
    return {};
  }

  Network() = default;
  Status build(const Graph& graph, Backend& backend, const NetworkOptions& options);
  Status build_step(const Graph& graph, Backend& backend, std::size_t index);

  std::unique_ptr<Backend> own_backend_;  // first: it outlives what it made
  Backend* backend_ = nullptr;
  LayerObserver* observer_ = nullptr;
  std::uint32_t batch_ = 0;
  std::vector<ParameterSpec> parameters_;
  std::vector<std::unique_ptr<Tensor>> tensors_;  // by TensorId
  std::vector<std::unique_ptr<Tensor>> views_;
  std::vector<bool> gradient_taken_;  // by TensorId: a later layer writes its gradient
  std::vector<Step> steps_;
  std::vector<Label> labels_, second_labels_;  // the second ones and the shares of mixed images
  std::vector<float> shares_;
  std::vector<float> logits_, logit_gradients_;
  std::optional<Loss> loss_;  // of start_loss, until it is told
};

}  // namespace phub::nn
