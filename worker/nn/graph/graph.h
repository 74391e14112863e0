// A network as data: layers, the tensors between them, and the parameters that each layer declares.
//
// A Graph knows no backend and no batch size. It is a value, built once by worker/nn/models/, by
// worker/nn/graph/description.cc from a file, or by a test, and read from any thread afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"

namespace phub::nn {

// Of one image; the batch is the backend's business. Host arrays are [image][row][column][channel].
struct Shape {
  std::uint32_t channels = 0;
  std::uint32_t height = 1;
  std::uint32_t width = 1;

  std::size_t elements() const { return static_cast<std::size_t>(channels) * height * width; }
  bool operator==(const Shape&) const = default;
};

// Pixels down and across. One number is a square.
struct Extent {
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  constexpr Extent(std::uint32_t side) : height(side), width(side) {}  // NOLINT: `.kernel = 3`
  constexpr Extent(std::uint32_t rows, std::uint32_t columns) : height(rows), width(columns) {}
  bool operator==(const Extent&) const = default;
};

// A window that moves over an image. Padding is the same above and below, and left and right.
struct Window {
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;

  bool operator==(const Window&) const = default;
};

// The channels are cut into `groups` parts; each part of the output sees its part of the input.
struct Convolution {
  std::uint32_t channels = 0;  // of the output
  Window window = {};
  bool bias = true;
  std::uint32_t groups = 1;

  bool operator==(const Convolution&) const = default;
};

struct InnerProduct {
  std::uint32_t outputs = 0;
  bool bias = true;

  bool operator==(const InnerProduct&) const = default;
};

enum class PoolKind { kMax, kAverage };

// Padding is never a maximum. The last window of a row or column may reach over the end if `ceil`
// (of the quotient that gives the output's size; for kMax only), but starts before the padding at
// the end.
struct Pool {
  PoolKind kind = PoolKind::kMax;
  Window window = {};
  bool ceil = false;
  bool count_padding = false;  // kAverage: the divisor is the window's size also at the borders

  bool operator==(const Pool&) const = default;
};

struct GlobalAveragePool {
  bool operator==(const GlobalAveragePool&) const = default;
};

struct Relu {
  bool operator==(const Relu&) const = default;
};

// Over (batch, height, width). Running statistics belong to the worker: they are not exchanged.
struct BatchNorm {
  bool relu = false;  // followed by a ReLU in the same pass
  float epsilon = 1e-5F;
  float momentum = 0.1F;    // running = (1 - momentum) * running + momentum * batch
  bool zero_scale = false;  // the scale starts at 0: for the last of a residual block

  bool operator==(const BatchNorm&) const = default;
};

// Sum of two tensors of one shape: the end of a residual block.
struct Add {
  bool relu = false;

  bool operator==(const Add&) const = default;
};

// Two tensors or more, of one height and width, one after the other along the channels.
struct Concat {
  bool operator==(const Concat&) const = default;
};

// In training each element is 0 with probability `ratio`, else multiplied by 1 / (1 - ratio); which
// ones is in worker/nn/dropout.h. In inference nothing happens.
struct Dropout {
  float ratio = 0.5F;

  bool operator==(const Dropout&) const = default;
};

// The parameter-free shortcut of He et al., "Deep residual learning" (2016), option A: every
// `stride`-th pixel, with zeros for the channels that the input does not have. The input's channels
// are in the middle.
struct Subsample {
  std::uint32_t channels = 0;  // of the output
  std::uint32_t stride = 1;

  bool operator==(const Subsample&) const = default;
};

using LayerKind = std::variant<Convolution, InnerProduct, Pool, GlobalAveragePool, Relu, BatchNorm,
                               Add, Concat, Dropout, Subsample>;

// "convolution", "inner_product" ...: the field of a description (proto/network.proto).
std::string_view name_of(const LayerKind& kind);

// Normal with variance 2 / fan-in (what a ReLU follows) or 1 / fan-in, or a constant.
enum class Fill { kHeNormal, kLecunNormal, kZero, kOne };

// One parameter tensor, which is one key of the exchange. Layouts are PyTorch's: convolutions
// [output][input / groups][row][column], inner products [output][input].
struct ParameterSpec {
  std::string name;  // "conv1.weight"
  std::vector<std::uint64_t> shape;
  // A bias or a batch-normalisation parameter: spared from LARS, and usually from decay.
  bool bias = false;
  Fill fill = Fill::kZero;

  // Whether decay and LARS are for it (Jia et al. 2018, "Highly scalable deep learning training
  // system": weights of convolutions and inner products, nothing else).
  bool decays() const { return !bias; }
  bool lars() const { return !bias; }
  std::uint64_t elements() const;
  std::uint64_t fan_in() const;  // inputs of one output
  bool operator==(const ParameterSpec&) const = default;
};

using TensorId = std::size_t;  // 0 is the network's input; layer i writes tensor i + 1

struct Layer {
  std::string name;
  LayerKind kind;
  std::vector<TensorId> inputs;
  std::vector<ParameterSpec> parameters;

  bool operator==(const Layer&) const = default;
};

class Graph {
 public:
  explicit Graph(Shape input) : shapes_{input} {}

  // Appends a layer and returns the tensor that it writes. REQUIRES: what try_add checks.
  TensorId add(std::string name, LayerKind kind, std::vector<TensorId> inputs);

  // The same for what comes from outside. Errors: kInvalidArgument, "FIELD: what is wrong; the
  // cure", without the layer's name, and the graph is as before. Fields are those of
  // proto/network.proto.
  Result<TensorId> try_add(std::string name, LayerKind kind, std::vector<TensorId> inputs);

  const std::vector<Layer>& layers() const { return layers_; }
  const Shape& shape(TensorId tensor) const { return shapes_[tensor]; }
  const Shape& input_shape() const { return shapes_.front(); }
  const Shape& output_shape() const { return shapes_.back(); }
  std::size_t tensors() const { return shapes_.size(); }
  std::uint64_t parameter_elements() const;
  bool operator==(const Graph&) const = default;

 private:
  std::vector<Layer> layers_;
  std::vector<Shape> shapes_;
};

}  // namespace phub::nn
