// What a compute backend provides: tensors in its own memory, and one Op for each layer.
//
// A backend is used by one thread, which is also the one that made it, and outlives its tensors and
// ops. All memory and kernels are made by the make_ functions; forward and backward allocate
// nothing. The backend chooses memory layouts and its compute type; the host sees fp32 in the
// layout of graph.h's Shape, and parameters and gradients in plain fp32 arrays that live outside
// (the exchange owns them).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/nn/graph/graph.h"
#include "worker/nn/kernel_choice.h"

namespace phub::nn {

enum class Mode { kTraining, kInference };

// A batch of images at one point of the network: the value, and the loss's gradient by it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  virtual ~Tensor() = default;

  virtual std::size_t elements() const = 0;  // of the whole batch
  virtual bool has_gradient() const = 0;
  // Of the value; a gradient takes as much.
  virtual std::size_t value_bytes() const { return elements() * sizeof(float); }

  // Copies between the host and the backend. REQUIRES: spans of elements(); a gradient where one is
  // meant.
  virtual void write_value(std::span<const float> host) = 0;
  virtual void read_value(std::span<float> host) const = 0;
  virtual void write_gradient(std::span<const float> host) = 0;
  virtual void read_gradient(std::span<float> host) const = 0;
};

// Where a parameter and its gradient live: external memory, aligned to 4 bytes, plain layout. The
// parameter may be mapped read-only.
struct Binding {
  std::span<const float> parameter;
  std::span<float> gradient;
};

// The same in another type's elements.
struct TypedBinding {
  std::span<const std::byte> parameter;
  std::span<std::byte> gradient;
};

// State of an op that is not exchanged: batch normalisation's running statistics.
struct StateBuffer {
  std::string name;  // "bn1.running_mean"
  std::span<float> values;
};

class Op {
 public:
  Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  virtual ~Op() = default;

  // One binding for each parameter of the layer, in its order. Called once, before forward.
  virtual Status bind(std::span<const Binding> bindings) {
    PHUB_CHECK(bindings.empty(), "the layer has no parameters");
    return {};
  }
  virtual Status forward(Mode mode) = 0;
  // Writes the inputs' gradients (where they have one) and the parameters' gradients. Reads no
  // parameter after it has returned. REQUIRES: the last forward was in training mode.
  virtual Status backward() = 0;
  virtual std::vector<StateBuffer> buffers() { return {}; }
  // Whether nobody ever writes its output, nor the gradient by it: another op does its work.
  virtual bool leaves_output() const { return false; }
};

struct TensorOptions {
  Shape shape;
  std::uint32_t batch = 1;
  bool gradient = true;
  bool output =
      false;  // the network's: the loss reads it, so it may be wider than the compute type
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual Result<std::unique_ptr<Tensor>> make_tensor(const TensorOptions& options) = 0;
  // What all of its tensors take that is not malloc's memory.
  virtual std::uint64_t mapped_bytes() const { return 0; }
  // The same value with a gradient of its own, for the second reader of a tensor.
  virtual Result<std::unique_ptr<Tensor>> make_view(Tensor& tensor) = 0;
  // A tensor's readers are made before the op that writes it.
  virtual Result<std::unique_ptr<Op>> make_op(const Layer& layer, std::span<Tensor* const> inputs,
                                              Tensor& output) = 0;
  // An op whose backward adds view's gradient to tensor's.
  virtual Result<std::unique_ptr<Op>> make_accumulate(Tensor& tensor, Tensor& view) = 0;

  // What the following forwards in training draw from (dropout's masks): one number for each of
  // them, a function of the seed, the worker and the step, so that a run that is resumed draws the
  // same.
  void set_noise(std::uint64_t noise) { noise_ = noise; }

 protected:
  const std::uint64_t& noise() const { return noise_; }

 private:
  std::uint64_t noise_ = 0;
};

struct BackendOptions {
  DataType compute_type = DataType::kFloat32;
  std::uint32_t threads = 1;  // compute threads, the calling one included
  KernelOptions kernels = {};
};

}  // namespace phub::nn
