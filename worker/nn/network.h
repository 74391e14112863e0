// A graph made runnable on a backend for one batch size, with the hooks that the exchange hangs on.
//
// Owns its activations; parameters and gradients are bound from outside. Used by one thread, the
// backend's. The backend outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/graph.h"
#include "worker/nn/ops.h"

namespace phub::nn {

// A layer's keys: positions in Network::parameters().
struct KeyRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Called for layers with parameters only. An error ends the pass and is returned from it.
class Hooks {
 public:
  virtual ~Hooks() = default;
  // Before forward reads the layer's parameters.
  virtual Status weights_needed(const KeyRange& keys) = 0;
  // As soon as backward has written the layer's gradients; the layer's parameters are not read
  // again before the next weights_needed.
  virtual Status grad_ready(const KeyRange& keys) = 0;
};

struct NetworkOptions {
  std::uint32_t batch = 1;
  bool input_gradient = false;  // also computes the gradient by the network's input (for tests)
};

class Network {
 public:
  static Result<std::unique_ptr<Network>> create(const Graph& graph, Backend& backend,
                                                 const NetworkOptions& options);

  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // In forward order: these are the keys of the exchange.
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  std::vector<Buffer> buffers();

  // One binding for each parameter. Errors: kInvalidArgument names the parameter.
  Status bind(std::span<const Binding> bindings);

  std::uint32_t batch() const { return batch_; }
  Tensor& input() { return *tensors_.front(); }
  Tensor& output() { return *tensors_.back(); }

  // Backend::set_noise, for the forwards in training that follow.
  void set_noise(std::uint64_t noise) { backend_->set_noise(noise); }
  // input() -> output(). REQUIRES: bound.
  Status forward(Mode mode, Hooks& hooks);
  // output()'s gradient -> every parameter's gradient. REQUIRES: a forward in training mode.
  Status backward(Hooks& hooks);

 private:
  struct Step {
    std::unique_ptr<Op> op;
    KeyRange keys;
    std::vector<std::unique_ptr<Op>> accumulate;  // run after the op's backward
  };

  Network() = default;
  Status build(const Graph& graph, Backend& backend, const NetworkOptions& options);
  Status build_step(const Graph& graph, Backend& backend, std::size_t index);

  Backend* backend_ = nullptr;
  std::uint32_t batch_ = 0;
  std::vector<ParameterSpec> parameters_;
  std::vector<std::unique_ptr<Tensor>> tensors_;  // by TensorId
  std::vector<std::unique_ptr<Tensor>> views_;
  std::vector<bool> gradient_taken_;  // by TensorId: a later layer writes its gradient
  std::vector<Step> steps_;
};

}  // namespace phub::nn
