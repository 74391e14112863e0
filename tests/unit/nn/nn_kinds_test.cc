// The oneDNN backend's further layer kinds against finite differences.
#include "tests/unit/nn/nn_harness.h"

namespace phub::nn {
namespace {

constexpr float kKindsEpsilon = 1e-2F;
constexpr double kKindsTolerance = 5e-3;  // relative to the largest gradient of the array

Graph graph_of(const Shape& input, const LayerKind& kind) {
  Graph graph(input);
  graph.add("layer", kind, {0});
  return graph;
}

TEST_CASE("Rectangular and grouped convolutions' gradients are their finite differences") {
  const auto layer = GENERATE(values<Convolution>(
      {{.channels = 6, .window = {.kernel = {1, 7}, .stride = 1, .padding = {0, 3}}},
       {.channels = 6, .window = {.kernel = {3, 1}, .stride = {2, 1}, .padding = {1, 0}}},
       {.channels = 6, .window = {3, 1, 1}, .groups = 2},
       {.channels = 32, .window = {3, 2, 1}, .bias = false, .groups = 4}}));
  const std::uint32_t channels = layer.groups == 4 ? 32 : 4;
  NetworkHarness harness(graph_of({.channels = channels, .height = 7, .width = 8}, layer), 2);
  harness.check_gradients(kKindsEpsilon, kKindsTolerance);
}

TEST_CASE("Further pools' gradients are their finite differences") {
  const auto pool = GENERATE(
      values<Pool>({{.kind = PoolKind::kMax, .window = {.kernel = 3, .stride = 2}, .ceil = true},
                    {.kind = PoolKind::kMax, .window = {2, 2, 1}, .ceil = true},
                    {.kind = PoolKind::kMax, .window = {.kernel = {1, 3}, .stride = {1, 2}}},
                    {.kind = PoolKind::kAverage, .window = {3, 1, 1}, .count_padding = true}}));
  NetworkHarness harness(graph_of({.channels = 3, .height = 6, .width = 6}, pool), 2);
  for (std::size_t i = 0; i < harness.input.size();
       ++i) {  // distinct, further than kKindsEpsilon apart
    harness.input[i] = 0.1F * static_cast<float>((i * 101) % harness.input.size());
  }
  harness.check_gradients(kKindsEpsilon, kKindsTolerance);
}

TEST_CASE("An average divides by what it is told to") {
  const bool count_padding = GENERATE(false, true);
  NetworkHarness harness(
      graph_of(
          {.channels = 1, .height = 3, .width = 3},
          Pool{.kind = PoolKind::kAverage, .window = {3, 1, 1}, .count_padding = count_padding}),
      1);
  std::fill(harness.input.begin(), harness.input.end(), 1.0F);
  const std::vector<float> result = harness.forward();
  REQUIRE(result[0] == Approx(count_padding ? 4.0 / 9.0 : 1.0));
  REQUIRE(result[4] == Approx(1.0));
}

TEST_CASE("A concatenation is its inputs side by side, and its gradients go back to each") {
  Graph graph({.channels = 2, .height = 3, .width = 4});
  const TensorId a = graph.add("a", Convolution{.channels = 3}, {0});
  const TensorId b = graph.add("b", Convolution{.channels = 1}, {0});
  graph.add("all", Concat{}, {a, 0, b, a});
  NetworkHarness harness(graph, 2);
  const std::vector<float> result = harness.forward();
  for (std::size_t pixel = 0; pixel < 2 * 3 * 4; ++pixel) {
    const float* channels = &result[pixel * 9];
    REQUIRE(channels[3] == harness.input[pixel * 2]);
    REQUIRE(channels[4] == harness.input[pixel * 2 + 1]);
    REQUIRE(std::equal(channels, channels + 3, channels + 6));
  }
  harness.check_gradients(kKindsEpsilon, kKindsTolerance);
}

TEST_CASE("Dropout's gradient is its finite difference, and inference keeps everything") {
  NetworkHarness harness(graph_of({.channels = 40}, Dropout{.ratio = 0.25F}), 5);
  harness.backend().set_noise(17);
  const std::vector<float> trained = harness.forward();
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    dropped += trained[i] == 0.0F ? 1U : 0U;
    if (trained[i] != 0.0F) REQUIRE(trained[i] == Approx(harness.input[i] / 0.75F));
  }
  REQUIRE(dropped > 25);
  REQUIRE(dropped < 75);
  harness.check_gradients(kKindsEpsilon, kKindsTolerance);
  REQUIRE(harness.forward(Mode::kInference) == harness.input);
  harness.backend().set_noise(18);
  REQUIRE(harness.forward() != trained);
  harness.backend().set_noise(17);
  REQUIRE(harness.forward() == trained);
}

TEST_CASE("Backward uses the mask of its forward though the noise has changed") {
  NetworkHarness harness(graph_of({.channels = 64}, Dropout{}), 1);
  harness.backend().set_noise(3);
  const std::vector<float> trained = harness.forward();
  harness.backend().set_noise(4);
  const std::vector<float> gradient = harness.backward();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    REQUIRE((gradient[i] == 0.0F) == (trained[i] == 0.0F));
  }
}

}  // namespace
}  // namespace phub::nn
