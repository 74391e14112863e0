#include "worker/nn/graph/description_layers.h"

#include <string>

namespace phub::nn {
namespace {

using Numbers = google::protobuf::RepeatedField<std::uint32_t>;

struct ExtentField {
  const char* name;
  Extent otherwise;  // if it is left out
};

Result<Extent> extent_of(const Numbers& numbers, const ExtentField& field) {
  switch (numbers.size()) {
    case 0:
      return field.otherwise;
    case 1:
      return Extent(numbers[0]);
    case 2:
      return Extent(numbers[0], numbers[1]);
    default:
      return Status(Code::kInvalidArgument, std::string(field.name) + ": has " +
                                                std::to_string(numbers.size()) +
                                                " numbers; give one, or two: down and across");
  }
}

template <typename Config>
Result<Window> window_of(const Config& config) {
  PHUB_ASSIGN_OR_RETURN(const Extent kernel, extent_of(config.kernel(), {"kernel", 1}));
  PHUB_ASSIGN_OR_RETURN(const Extent stride, extent_of(config.stride(), {"stride", 1}));
  PHUB_ASSIGN_OR_RETURN(const Extent padding, extent_of(config.padding(), {"padding", 0}));
  return Window{kernel, stride, padding};
}

Result<LayerKind> convolution_of(const ConvolutionLayer& config) {
  PHUB_ASSIGN_OR_RETURN(const Window window, window_of(config));
  return LayerKind(Convolution{.channels = config.channels(),
                               .window = window,
                               .bias = config.bias(),
                               .groups = config.groups()});
}

Result<LayerKind> pool_of(const PoolLayer& config) {
  if (config.kind() != "max" && config.kind() != "average") {
    return Status(Code::kInvalidArgument,
                  "kind: \"" + config.kind() + "\" is not known; allowed are max, average");
  }
  PHUB_ASSIGN_OR_RETURN(const Window window, window_of(config));
  return LayerKind(Pool{.kind = config.kind() == "max" ? PoolKind::kMax : PoolKind::kAverage,
                        .window = window,
                        .ceil = config.ceil(),
                        .count_padding = config.count_padding()});
}

void describe(const Extent& extent, const Extent& otherwise, Numbers& numbers) {
  if (extent == otherwise) return;
  numbers.Add(extent.height);
  if (extent.width != extent.height) numbers.Add(extent.width);
}

template <typename Config>
void describe_window(const Window& window, Config& config) {
  describe(window.kernel, 1, *config.mutable_kernel());
  describe(window.stride, 1, *config.mutable_stride());
  describe(window.padding, 0, *config.mutable_padding());
}

struct DescribeKind {
  LayerConfig& config;

  void operator()(const Convolution& layer) const {
    ConvolutionLayer& out = *config.mutable_convolution();
    out.set_channels(layer.channels);
    describe_window(layer.window, out);
    if (!layer.bias) out.set_bias(false);
    if (layer.groups != 1) out.set_groups(layer.groups);
  }
  void operator()(const InnerProduct& layer) const {
    config.mutable_inner_product()->set_outputs(layer.outputs);
    if (!layer.bias) config.mutable_inner_product()->set_bias(false);
  }
  void operator()(const Pool& layer) const {
    PoolLayer& out = *config.mutable_pool();
    if (layer.kind == PoolKind::kAverage) out.set_kind("average");
    describe_window(layer.window, out);
    if (layer.ceil) out.set_ceil(true);
    if (layer.count_padding) out.set_count_padding(true);
  }
  void operator()(const GlobalAveragePool&) const { config.mutable_global_average_pool(); }
  void operator()(const Relu&) const { config.mutable_relu(); }
  void operator()(const BatchNorm& layer) const {
    BatchNormLayer& out = *config.mutable_batch_norm();
    if (layer.relu) out.set_relu(true);
    if (layer.epsilon != out.epsilon()) out.set_epsilon(layer.epsilon);
    if (layer.momentum != out.momentum()) out.set_momentum(layer.momentum);
    if (layer.zero_scale) out.set_zero_scale(true);
  }
  void operator()(const Add& layer) const {
    AddLayer& out = *config.mutable_add();
    if (layer.relu) out.set_relu(true);
  }
  void operator()(const Concat&) const { config.mutable_concat(); }
  void operator()(const Dropout& layer) const {
    DropoutLayer& out = *config.mutable_dropout();
    if (layer.ratio != out.ratio()) out.set_ratio(layer.ratio);
  }
  void operator()(const Subsample& layer) const {
    SubsampleLayer& out = *config.mutable_subsample();
    out.set_channels(layer.channels);
    if (layer.stride != 1) out.set_stride(layer.stride);
  }
};

}  // namespace

Result<LayerKind> kind_of(const LayerConfig& config) {
  switch (config.kind_case()) {
    case LayerConfig::kConvolution:
      return convolution_of(config.convolution());
    case LayerConfig::kInnerProduct:
      return LayerKind(InnerProduct{.outputs = config.inner_product().outputs(),
                                    .bias = config.inner_product().bias()});
    case LayerConfig::kPool:
      return pool_of(config.pool());
    case LayerConfig::kGlobalAveragePool:
      return LayerKind(GlobalAveragePool{});
    case LayerConfig::kRelu:
      return LayerKind(Relu{});
    case LayerConfig::kBatchNorm:
      return LayerKind(BatchNorm{.relu = config.batch_norm().relu(),
                                 .epsilon = config.batch_norm().epsilon(),
                                 .momentum = config.batch_norm().momentum(),
                                 .zero_scale = config.batch_norm().zero_scale()});
    case LayerConfig::kAdd:
      return LayerKind(Add{.relu = config.add().relu()});
    case LayerConfig::kConcat:
      return LayerKind(Concat{});
    case LayerConfig::kDropout:
      return LayerKind(Dropout{.ratio = config.dropout().ratio()});
    case LayerConfig::kSubsample:
      return LayerKind(Subsample{.channels = config.subsample().channels(),
                                 .stride = config.subsample().stride()});
    case LayerConfig::KIND_NOT_SET:
      break;
  }
  return Status(Code::kInvalidArgument,
                "kind: is missing; give one, as convolution { channels: 64 kernel: 3 }");
}

void describe_kind(const LayerKind& kind, LayerConfig& config) {
  std::visit(DescribeKind{config}, kind);
}

}  // namespace phub::nn
