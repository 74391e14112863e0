#include "worker/cuda/passes/pass_schedule.h"

#include <algorithm>

namespace phub::nn::cuda {
namespace {

bool names(const Step& step, BufferId buffer) {
  const std::vector<BufferId>& buffers = step.buffers();
  return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
}

// Positions of the layers, sorted by `key` of each, stably.
std::vector<std::size_t> sorted_by(const std::vector<std::size_t>& key) {
  std::vector<std::size_t> order(key.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key[a] < key[b]; });
  return order;
}

// The first step that reads a parameter of each layer; behind the last where none does.
std::vector<std::size_t> first_reads(const Lowered& lowered, const std::vector<Step>& steps,
                                     const std::vector<KeyRange>& layers) {
  std::vector<std::size_t> first(layers.size(), steps.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const KeyRange& keys = layers[layer];
    for (std::uint32_t key = keys.first; key < keys.first + keys.count; ++key) {
      const BufferId value = lowered.parameters[key].value;
      const auto found = std::find_if(steps.begin(), steps.end(),
                                      [&](const Step& step) { return names(step, value); });
      first[layer] = std::min(first[layer], static_cast<std::size_t>(found - steps.begin()));
    }
  }
  return first;
}

std::vector<PassSegment> forward_segments(const Lowered& lowered, Pass pass,
                                          const std::vector<KeyRange>& layers,
                                          std::size_t segments) {
  const std::vector<Step>& steps = steps_of(lowered, pass);
  const std::vector<std::size_t> first = first_reads(lowered, steps, layers);
  const std::size_t least = (steps.size() + segments - 1) / segments;
  std::vector<PassSegment> cut = {{}};
  for (const std::size_t layer : sorted_by(first)) {
    if (first[layer] >= cut.back().first + least && first[layer] < steps.size()) {
      cut.back().last = first[layer];
      cut.push_back({.first = first[layer]});
    }
    cut.back().layers.push_back(layer);
  }
  cut.back().last = steps.size();
  return cut;
}

std::vector<GradientMark> gradient_marks(const Lowered& lowered,
                                         const std::vector<KeyRange>& layers) {
  const std::vector<Step>& steps = lowered.backward;
  std::vector<GradientMark> marks;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    std::size_t end = 0;
    for (std::uint32_t key = layers[layer].first; key < layers[layer].first + layers[layer].count;
         ++key) {
      const BufferId gradient = lowered.parameters[key].gradient;
      for (std::size_t i = end; i < steps.size(); ++i) {
        if (names(steps[i], gradient)) end = i + 1;
      }
    }
    marks.push_back({end, layer});
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const GradientMark& a, const GradientMark& b) { return a.end < b.end; });
  return marks;
}

}  // namespace

std::vector<KeyRange> layer_keys(const Graph& graph) {
  std::vector<KeyRange> layers;
  std::uint32_t first = 0;
  for (const Layer& layer : graph.layers()) {
    const auto count = static_cast<std::uint32_t>(layer.parameters.size());
    if (count > 0) layers.push_back({first, count});
    first += count;
  }
  return layers;
}

PassSchedule make_schedule(const Graph& graph, const Lowered& lowered, std::size_t segments) {
  std::vector<KeyRange> layers = layer_keys(graph);
  return {.layers = layers,
          .forward = forward_segments(lowered, Pass::kForward, layers, segments),
          .inference = forward_segments(lowered, Pass::kInference, layers, segments),
          .marks = gradient_marks(lowered, layers),
          .backward_steps = lowered.backward.size()};
}

}  // namespace phub::nn::cuda
