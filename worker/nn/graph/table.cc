#include "worker/nn/graph/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "worker/nn/graph/cost.h"

namespace phub::nn {
namespace {

using nlohmann::json;

std::string in_words(const Extent& extent) {
  return fmt::format("{}x{}", extent.height, extent.width);
}

std::string in_words(const Shape& shape) {
  if (shape.height == 1 && shape.width == 1) return std::to_string(shape.channels);
  return fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
}

std::string in_words(const Window& window) {
  std::string text = " " + in_words(window.kernel);
  if (window.stride != Window{}.stride) text += " stride " + in_words(window.stride);
  if (window.padding != Window{}.padding) text += " pad " + in_words(window.padding);
  return text;
}

// What a kind's name does not say.
struct Details {
  std::string operator()(const Convolution& layer) const {
    const std::string groups = layer.groups > 1 ? fmt::format(" groups {}", layer.groups) : "";
    return in_words(layer.window) + groups;
  }
  std::string operator()(const Pool& layer) const {
    return (layer.kind == PoolKind::kMax ? " max" : " average") + in_words(layer.window);
  }
  std::string operator()(const BatchNorm& layer) const { return layer.relu ? " + relu" : ""; }
  std::string operator()(const Add& layer) const { return layer.relu ? " + relu" : ""; }
  std::string operator()(const Dropout& layer) const { return fmt::format(" {}", layer.ratio); }
  std::string operator()(const Subsample& layer) const {
    return fmt::format(" stride {}", layer.stride);
  }
  template <typename NothingToSay>
  std::string operator()(const NothingToSay&) const {
    return "";
  }
};

// 1234567 as 1,234,567.
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), ",");
  }
  return digits;
}

std::string megabytes(std::uint64_t elements, std::size_t element_bytes) {
  return fmt::format("{:.2f}", static_cast<double>(elements * element_bytes) / 1e6);
}

std::string unless_zero(std::uint64_t number, const std::string& text) {
  return number == 0 ? "-" : text;
}

using LayerRow = std::vector<std::string>;

// The first `left` columns to the left, the others to the right.
std::string aligned(const std::vector<LayerRow>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const LayerRow& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const LayerRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += c < left ? fmt::format("{:<{}}  ", row[c], widths[c])
                       : fmt::format("{:>{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string totals(const Graph& graph, std::uint32_t batch) {
  const NetworkCost cost = cost_of(graph);
  const std::uint64_t both = cost.forward_flops + cost.backward_flops;
  std::size_t tensors = 0;
  for (const Layer& layer : graph.layers()) tensors += layer.parameters.size();
  const auto flops_text = [](std::uint64_t flops) {
    const auto number = static_cast<double>(flops);
    return number < 1e9 ? fmt::format("{:.2f} MFLOP", number / 1e6)
                        : fmt::format("{:.2f} GFLOP", number / 1e9);
  };
  const std::uint64_t outputs = cost.activations * batch;
  const std::vector<LayerRow> bytes = {
      {"MB in", "fp32", "fp16, bf16"},
      {"parameters", megabytes(cost.parameters, 4), megabytes(cost.parameters, 2)},
      {"gradients", megabytes(cost.parameters, 4), megabytes(cost.parameters, 2)},
      {fmt::format("outputs, batch of {}", batch), megabytes(outputs, 4), megabytes(outputs, 2)},
      {"their gradients", megabytes(outputs, 4), megabytes(outputs, 2)},
  };
  return fmt::format(
      "parameters          {} in {} tensors, {} running statistics beside them\n"
      "forward             {} an image, {} a batch (convolutions and inner products; a "
      "multiply-add is 2)\n"
      "forward + backward  {} an image, {} a batch\n\n{}",
      grouped(cost.parameters), tensors, grouped(cost.buffers), flops_text(cost.forward_flops),
      flops_text(cost.forward_flops * batch), flops_text(both), flops_text(both * batch),
      aligned(bytes, 1));
}

json shape_json(const Shape& shape) { return {shape.channels, shape.height, shape.width}; }

json layer_json(const Graph& graph, std::size_t index) {
  const Layer& layer = graph.layers()[index];
  const LayerCost cost = cost_of(graph, index);
  json inputs = json::array();
  for (const TensorId input : layer.inputs) {
    inputs.push_back(input == 0 ? "input" : graph.layers()[input - 1].name);
  }
  json parameters = json::array();
  for (const ParameterSpec& spec : layer.parameters) {
    parameters.push_back({{"name", spec.name},
                          {"shape", spec.shape},
                          {"decay", spec.decays()},
                          {"lars", spec.lars()}});
  }
  return {{"name", layer.name},
          {"kind", name_of(layer.kind)},
          {"inputs", inputs},
          {"output", shape_json(graph.shape(index + 1))},
          {"parameters", parameters},
          {"parameter_elements", cost.parameters},
          {"forward_flops", cost.forward_flops()},
          {"backward_flops", cost.backward_flops()},
          {"output_elements", cost.output_elements}};
}

}  // namespace

std::string network_table(const Graph& graph, std::string_view name, std::uint32_t batch) {
  std::vector<LayerRow> rows = {{"layer", "kind", "output", "parameters", "MFLOP", "MB"}};
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const Layer& layer = graph.layers()[i];
    const LayerCost cost = cost_of(graph, i);
    const double mega = static_cast<double>(cost.forward_flops()) / 1e6;
    rows.push_back(
        {layer.name, std::string(name_of(layer.kind)) + std::visit(Details{}, layer.kind),
         in_words(graph.shape(i + 1)), unless_zero(cost.parameters, grouped(cost.parameters)),
         unless_zero(cost.multiply_adds, fmt::format("{:.2f}", mega)),
         megabytes(cost.output_elements * batch, 4)});
  }
  return fmt::format(
      "{}: {} layers on images of {} (channels x height x width)\n"
      "MFLOP: of the forward pass, an image. MB: the layer's output for a batch of {} in fp32.\n\n"
      "{}\n{}",
      name, graph.layers().size(), in_words(graph.input_shape()), batch, aligned(rows, 3),
      totals(graph, batch));
}

std::string network_json(const Graph& graph, std::string_view name, std::uint32_t batch) {
  const NetworkCost cost = cost_of(graph);
  json layers = json::array();
  for (std::size_t i = 0; i < graph.layers().size(); ++i) layers.push_back(layer_json(graph, i));
  const json all = {{"model", name},
                    {"batch", batch},
                    {"input", shape_json(graph.input_shape())},
                    {"layers", layers},
                    {"totals",
                     {{"parameter_elements", cost.parameters},
                      {"buffer_elements", cost.buffers},
                      {"forward_flops", cost.forward_flops},
                      {"backward_flops", cost.backward_flops},
                      {"output_elements", cost.activations}}}};
  return all.dump() + "\n";
}

std::string segment_table_text(const SegmentTable& table) {
  std::vector<LayerRow> rows = {
      {"key", "shape", "flags", "type", "offset", "elements", "bytes", "chunk", "chunks"}};
  for (const KeySegment& segment : table.segments()) {
    const std::string flags =
        segment.decay && segment.lars ? "decay lars" : (segment.decay ? "decay" : "-");
    rows.push_back({segment.name, fmt::format("{}", fmt::join(segment.shape, " x ")), flags,
                    std::string(name_of(segment.type)), grouped(segment.offset),
                    grouped(segment.elements), grouped(segment.elements * size_of(segment.type)),
                    std::to_string(segment.first_chunk), std::to_string(segment.chunks)});
  }
  return fmt::format("{}\n{} keys in {} chunks, {} elements with padding\n", aligned(rows, 4),
                     table.segments().size(), grouped(table.chunks()), grouped(table.elements()));
}

std::string segment_table_json(const SegmentTable& table) {
  json segments = json::array();
  for (const KeySegment& segment : table.segments()) {
    segments.push_back({{"name", segment.name},
                        {"shape", segment.shape},
                        {"offset", segment.offset},
                        {"elements", segment.elements},
                        {"first_chunk", segment.first_chunk},
                        {"chunks", segment.chunks},
                        {"type", name_of(segment.type)},
                        {"decay", segment.decay},
                        {"lars", segment.lars}});
  }
  const json all = {
      {"segments", segments}, {"elements", table.elements()}, {"chunks", table.chunks()}};
  return all.dump() + "\n";
}

}  // namespace phub::nn
