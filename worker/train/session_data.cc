#include "worker/train/session_data.h"

#include <string>

namespace phub::train {
namespace {

std::string describe(const nn::Shape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

}  // namespace

Result<data::Datasets> load_data(const SessionOptions& options, const nn::Graph& graph) {
  const nn::Shape& shape = graph.input_shape();
  switch (options.data.format) {
    case DataFormat::kIdx:
      return data::load_idx(options.data.path);
    case DataFormat::kCifar10:
      return data::load_cifar10(options.data.path);
    case DataFormat::kSynthetic:
      return data::make_synthetic({.channels = shape.channels,
                                   .height = shape.height,
                                   .width = shape.width,
                                   .classes = graph.output_shape().channels,
                                   .images = options.data.synthetic_images,
                                   .seed = options.seed});
  }
  return Status(Code::kInvalidArgument, "data.format is unknown");
}

Status check_fit(const SessionOptions& options, const nn::Graph& graph,
                 const data::Dataset& dataset) {
  const nn::Shape images{dataset.channels, dataset.height, dataset.width};
  if (images != graph.input_shape()) {
    return {Code::kInvalidArgument,
            "model " + options.model + " takes images of " + describe(graph.input_shape()) +
                " but the data set has " + describe(images) +
                ": choose model.name (or model.image, or the description) to fit "
                "data.format"};
  }
  const nn::Shape& output = graph.output_shape();
  if (output.height != 1 || output.width != 1) {
    return {Code::kInvalidArgument, "model " + options.model + " ends with " + describe(output) +
                                        " numbers an image: end it with global_average_pool or "
                                        "inner_product, one number for each class"};
  }
  if (dataset.classes > graph.output_shape().channels) {
    return {Code::kInvalidArgument,
            "the data set has " + std::to_string(dataset.classes) +
                " classes: set model.classes, or the last layer's outputs, to "
                "at least that"};
  }
  return {};
}

}  // namespace phub::train
