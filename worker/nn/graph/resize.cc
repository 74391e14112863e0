#include "worker/nn/graph/resize.h"

#include <string>

namespace phub::nn {
namespace {

std::string pixels_of(const Extent& image) {
  return std::to_string(image.height) + " x " + std::to_string(image.width);
}

}  // namespace

Result<Graph> resize(const Graph& graph, Extent image) {
  const Shape& input = graph.input_shape();
  Graph resized({.channels = input.channels, .height = image.height, .width = image.width});
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const Layer& layer = graph.layers()[i];
    const std::string name = "layer \"" + layer.name + "\"";
    const auto added = resized.try_add(layer.name, layer.kind, layer.inputs);
    if (!added) {
      return added.error().with_context("images of " + pixels_of(image) + " pixels: " + name);
    }
    if (resized.layers()[i].parameters == layer.parameters) continue;
    return Status(Code::kInvalidArgument,
                  name + " has parameters for images of " + pixels_of({input.height, input.width}) +
                      " pixels, and others for images of " + pixels_of(image) +
                      ": put a global_average_pool in front of it");
  }
  return resized;
}

}  // namespace phub::nn
