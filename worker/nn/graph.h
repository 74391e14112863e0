// A network as data: layers, the tensors between them, and the parameters that each layer declares.
//
// A Graph knows no backend and no batch size. It is a value, built once by worker/nn/models.cc (or
// a test) and read from any thread afterwards. Shapes that do not fit are bugs and end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace phub::nn {

// Of one image; the batch is the backend's business. Host arrays are [image][row][column][channel].
struct Shape {
  std::uint32_t channels = 0;
  std::uint32_t height = 1;
  std::uint32_t width = 1;

  std::size_t elements() const { return static_cast<std::size_t>(channels) * height * width; }
  bool operator==(const Shape&) const = default;
};

// A square window in pixels.
struct Window {
  std::uint32_t kernel = 1;
  std::uint32_t stride = 1;
  std::uint32_t padding = 0;
};

struct Convolution {
  std::uint32_t channels = 0;  // of the output
  Window window;
  bool bias = true;
};

struct InnerProduct {
  std::uint32_t outputs = 0;
};

enum class PoolKind { kMax, kAverage };  // the average does not count padding

struct Pool {
  PoolKind kind = PoolKind::kMax;
  Window window;
};

struct GlobalAveragePool {};

struct Relu {};

// Over (batch, height, width). Running statistics belong to the worker: they are not exchanged.
struct BatchNorm {
  bool relu = false;  // followed by a ReLU in the same pass
  float epsilon = 1e-5F;
  float momentum = 0.1F;  // running = (1 - momentum) * running + momentum * batch
};

// Sum of two tensors of one shape: the end of a residual block.
struct Add {
  bool relu = false;
};

// The parameter-free shortcut of He et al., "Deep residual learning" (2016), option A: every
// `stride`-th pixel, with zeros for the channels that the input does not have. The input's channels
// are in the middle.
struct Subsample {
  std::uint32_t channels = 0;  // of the output
  std::uint32_t stride = 1;
};

using LayerKind = std::variant<Convolution, InnerProduct, Pool, GlobalAveragePool, Relu, BatchNorm,
                               Add, Subsample>;

// Normal with variance 2 / fan-in (what a ReLU follows) or 1 / fan-in, or a constant.
enum class Fill { kHeNormal, kLecunNormal, kZero, kOne };

// One parameter tensor, which is one key of the exchange. Layouts are PyTorch's: convolutions
// [output][input][row][column], inner products [output][input].
struct ParameterSpec {
  std::string name;  // "conv1.weight"
  std::vector<std::uint64_t> shape;
  bool bias = false;  // a bias or a batch-normalisation parameter: usually spared from decay
  Fill fill = Fill::kZero;

  std::uint64_t elements() const;
  std::uint64_t fan_in() const;  // inputs of one output
};

using TensorId = std::size_t;  // 0 is the network's input; layer i writes tensor i + 1

struct Layer {
  std::string name;
  LayerKind kind;
  std::vector<TensorId> inputs;
  std::vector<ParameterSpec> parameters;
};

class Graph {
 public:
  explicit Graph(Shape input) : shapes_{input} {}

  // Appends a layer and returns the tensor that it writes. REQUIRES: inputs exist, shapes fit.
  TensorId add(std::string name, LayerKind kind, std::vector<TensorId> inputs);

  const std::vector<Layer>& layers() const { return layers_; }
  const Shape& shape(TensorId tensor) const { return shapes_[tensor]; }
  const Shape& input_shape() const { return shapes_.front(); }
  const Shape& output_shape() const { return shapes_.back(); }
  std::size_t tensors() const { return shapes_.size(); }
  std::uint64_t parameter_elements() const;

 private:
  std::vector<Layer> layers_;
  std::vector<Shape> shapes_;
};

}  // namespace phub::nn
