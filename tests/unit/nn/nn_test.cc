#include <sys/mman.h>

#include <limits>
#include <numeric>

#include "tests/unit/nn/nn_harness.h"
#include "worker/nn/loss.h"
#include "worker/nn/models/models.h"

namespace phub::nn {
namespace {

constexpr float kEpsilon = 1e-2F;
constexpr double kTolerance = 5e-3;  // relative to the largest gradient of the array

Graph one_layer(const Shape& input, LayerKind kind) {
  Graph graph(input);
  graph.add("layer", kind, {0});
  return graph;
}

// Distinct values a tenth apart in random order: no maximum changes within kEpsilon.
void fill_distinct(std::span<float> values) {
  std::iota(values.begin(), values.end(), 0.0F);
  std::shuffle(values.begin(), values.end(), std::mt19937(11));
  const float middle = static_cast<float>(values.size()) / 2.0F + 0.5F;
  for (float& value : values) value = 0.1F * (value - middle);
}

// Around -1 and around +1: what is centred on 0 does not change its sign within kEpsilon.
void fill_bimodal(std::span<float> values) {
  for (float& value : values) value = 0.2F * value + (value > 0.0F ? 1.0F : -1.0F);
}

TEST_CASE("A convolution's gradients are its finite differences") {
  const Window window =
      GENERATE(Window{3, 1, 1}, Window{5, 1, 0}, Window{3, 2, 1}, Window{1, 2, 0});
  const bool bias = GENERATE(true, false);
  const std::uint32_t channels = GENERATE(3U, 20U);
  NetworkHarness harness(
      one_layer({.channels = 4, .height = 7, .width = 7}, Convolution{channels, window, bias}), 2);
  REQUIRE(harness.keys() == (bias ? 2 : 1));
  harness.check_gradients(kEpsilon, kTolerance);
}

TEST_CASE("A convolution is the sum of products over its window") {
  NetworkHarness harness(one_layer({.channels = 2, .height = 3, .width = 3},
                                   Convolution{.channels = 1, .window = {.kernel = 3}}),
                         1);
  double expected = harness.parameter(1)[0];
  for (std::size_t channel = 0; channel < 2; ++channel) {
    for (std::size_t pixel = 0; pixel < 9; ++pixel) {  // images NHWC, weights OIHW
      expected += double{harness.input[pixel * 2 + channel]} *
                  double{harness.parameter(0)[channel * 9 + pixel]};
    }
  }
  REQUIRE(harness.forward()[0] == Approx(expected).epsilon(1e-5));
}

TEST_CASE("An inner product's gradients are its finite differences") {
  const Shape input =
      GENERATE(Shape{.channels = 5, .height = 4, .width = 4}, Shape{.channels = 33});
  NetworkHarness harness(one_layer(input, InnerProduct{.outputs = 7}), 3);
  harness.check_gradients(kEpsilon, kTolerance);
}

TEST_CASE("An inner product flattens channel by channel, as PyTorch does") {
  NetworkHarness harness(
      one_layer({.channels = 2, .height = 2, .width = 2}, InnerProduct{.outputs = 1}), 1);
  double expected = harness.parameter(1)[0];
  for (std::size_t channel = 0; channel < 2; ++channel) {
    for (std::size_t pixel = 0; pixel < 4; ++pixel) {
      expected += double{harness.input[pixel * 2 + channel]} *
                  double{harness.parameter(0)[channel * 4 + pixel]};
    }
  }
  REQUIRE(harness.forward()[0] == Approx(expected).epsilon(1e-5));
}

TEST_CASE("Pooling's gradients are its finite differences") {
  const LayerKind kind = GENERATE(values<LayerKind>(
      {Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}},
       Pool{PoolKind::kMax, {.kernel = 3, .stride = 2, .padding = 1}},
       Pool{PoolKind::kAverage, {.kernel = 2, .stride = 2}},
       Pool{PoolKind::kAverage, {.kernel = 3, .stride = 1, .padding = 1}}, GlobalAveragePool{}}));
  NetworkHarness harness(one_layer({.channels = 5, .height = 6, .width = 6}, kind), 2);
  fill_distinct(harness.input);
  harness.check_gradients(kEpsilon, kTolerance);
}

TEST_CASE("A ReLU's gradients are its finite differences") {
  NetworkHarness harness(one_layer({.channels = 5, .height = 3, .width = 3}, Relu{}), 2);
  fill_bimodal(harness.input);
  harness.check_gradients(kEpsilon, kTolerance);
}

TEST_CASE("Batch normalisation's gradients are its finite differences") {
  const bool relu = GENERATE(false, true);
  NetworkHarness harness(
      one_layer({.channels = 16, .height = 4, .width = 4}, BatchNorm{.relu = relu}), 4);
  if (relu) {
    fill_bimodal(harness.input);
    std::fill(harness.parameter(0).begin(), harness.parameter(0).end(), 1.5F);
    for (float& shift : harness.parameter(1)) shift *= 0.2F;
  }
  harness.check_gradients(kEpsilon, 4 * kTolerance);  // the statistics bend the curve
}

TEST_CASE("Batch normalisation infers with the running statistics of training") {
  constexpr float kMomentum = 0.1F;
  NetworkHarness harness(
      one_layer({.channels = 1, .height = 2, .width = 2}, BatchNorm{.momentum = kMomentum}), 1);
  harness.input = {1.0F, 2.0F, 3.0F, 6.0F};
  harness.parameter(0)[0] = 2.0F;
  harness.parameter(1)[0] = 0.5F;
  harness.forward(Mode::kTraining);
  const double mean = kMomentum * 3.0;                   // from 0
  const double variance = 0.9 * 1.0 + 0.1 * 14.0 / 3.0;  // from 1, unbiased
  const auto buffers = harness.network().buffers();
  REQUIRE(buffers.size() == 2);
  REQUIRE(buffers[0].name == "layer.running_mean");
  REQUIRE(buffers[0].values[0] == Approx(mean));
  REQUIRE(buffers[1].name == "layer.running_var");
  REQUIRE(buffers[1].values[0] == Approx(variance));
  const std::vector<float> inferred = harness.forward(Mode::kInference);
  for (std::size_t i = 0; i < 4; ++i) {
    const double expected =
        2.0 * (double{harness.input[i]} - mean) / std::sqrt(variance + 1e-5) + 0.5;
    REQUIRE(inferred[i] == Approx(expected).epsilon(1e-5));
  }
  REQUIRE(buffers[0].values[0] == Approx(mean));  // inference leaves them alone
}

TEST_CASE(
    "The gradients of a residual block, whose input has two readers, are its finite differences") {
  const bool widens = GENERATE(false, true);
  const bool relu = GENERATE(false, true);
  Graph graph({.channels = 4, .height = 6, .width = 6});
  const std::uint32_t channels = widens ? 8 : 4;
  const std::uint32_t stride = widens ? 2 : 1;
  TensorId x = graph.add("conv0", Convolution{.channels = 4, .window = {3, 1, 1}}, {0});
  const TensorId before = x;
  x = graph.add("conv1", Convolution{.channels = channels, .window = {3, stride, 1}}, {before});
  TensorId shortcut = before;
  if (widens) shortcut = graph.add("shortcut", Subsample{channels, stride}, {before});
  graph.add("add", Add{.relu = relu}, {x, shortcut});
  NetworkHarness harness(graph, 2);
  // A ReLU's kink within the step shifts a difference by less than the step's share of the sum.
  harness.check_gradients(relu ? 1e-3F : kEpsilon, relu ? 6 * kTolerance : kTolerance);
}

TEST_CASE("A parameter-free shortcut keeps every second pixel and pads channels with zeros") {
  NetworkHarness harness(one_layer({.channels = 2, .height = 3, .width = 3}, Subsample{4, 2}), 1);
  const std::vector<float> result = harness.forward();
  const std::size_t kept[] = {0, 2, 6, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(result[i * 4] == 0.0F);
    REQUIRE(result[i * 4 + 1] == harness.input[kept[i] * 2]);
    REQUIRE(result[i * 4 + 2] == harness.input[kept[i] * 2 + 1]);
    REQUIRE(result[i * 4 + 3] == 0.0F);
  }
  harness.check_gradients(kEpsilon, kTolerance);
}

TEST_CASE("The cross-entropy's gradient is its finite difference") {
  std::vector<float> logits = {0.3F, -1.2F, 2.0F, 0.1F, 3.0F, -3.0F};
  const std::vector<Label> labels = {2, 0};
  std::vector<float> gradient(logits.size());
  const Loss loss = softmax_cross_entropy(logits, labels, gradient);
  const double first = std::log(std::exp(0.3) + std::exp(-1.2) + std::exp(2.0)) - 2.0;
  const double second = std::log(std::exp(0.1) + std::exp(3.0) + std::exp(-3.0)) - 0.1;
  REQUIRE(loss.sum == Approx(first + second));
  REQUIRE(loss.correct == 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float before = logits[i];
    logits[i] = before + 1e-2F;
    const double above = softmax_cross_entropy(logits, labels).sum;
    logits[i] = before - 1e-2F;
    const double below = softmax_cross_entropy(logits, labels).sum;
    logits[i] = before;
    const double mean_slope = (above - below) / 2e-2 / 2.0;
    REQUIRE(gradient[i] == Approx(mean_slope).margin(1e-4));
  }
}

TEST_CASE("Of equal logits the first counts as larger, for top-1 and for top-k") {
  const std::vector<float> logits = {1, 3, 2, 3,  //
                                     5, 5, 5, 5,  //
                                     0, 1, 2, 3};
  const std::vector<Label> labels = {3, 0, 0};
  REQUIRE(top_k_correct(logits, labels, 1) == softmax_cross_entropy(logits, labels).correct);
  REQUIRE(top_k_correct(logits, labels, 1) == 1);
  REQUIRE(top_k_correct(logits, labels, 2) == 2);
  REQUIRE(top_k_correct(logits, labels, 3) == 2);
  REQUIRE(top_k_correct(logits, labels, 4) == 3);
}

TEST_CASE("The cross-entropy of huge logits is finite") {
  const std::vector<float> logits = {1000.0F, -1000.0F};
  REQUIRE(softmax_cross_entropy(logits, std::vector<Label>{1}).sum == Approx(2000.0));
  REQUIRE(softmax_cross_entropy(logits, std::vector<Label>{0}).sum == Approx(0.0));
}

TEST_CASE("Parameters are named and shaped as in PyTorch, in forward order") {
  const Graph graph = lenet(10);
  std::vector<ParameterSpec> all;
  for (const Layer& layer : graph.layers()) {
    all.insert(all.end(), layer.parameters.begin(), layer.parameters.end());
  }
  REQUIRE(all.size() == 8);
  REQUIRE(all[0].name == "conv1.weight");
  REQUIRE(all[0].shape == std::vector<std::uint64_t>{20, 1, 5, 5});
  REQUIRE_FALSE(all[0].bias);
  REQUIRE(all[5].name == "fc1.bias");
  REQUIRE(all[5].shape == std::vector<std::uint64_t>{500});
  REQUIRE(all[5].bias);
  REQUIRE(all[4].shape == std::vector<std::uint64_t>{500, 800});
  REQUIRE(all[4].fan_in() == 800);
}

TEST_CASE("An unknown model is refused with the names of those there are") {
  const auto model = make_model("alexnut");
  REQUIRE_FALSE(model);
  REQUIRE(model.error().code() == Code::kInvalidArgument);
  REQUIRE(model.error().message().find("lenet") != std::string::npos);
}

TEST_CASE("A compute type that the CPU backend lacks is refused by name") {
  const auto backend = make_onednn_backend({.compute_type = DataType::kFloat16});
  REQUIRE_FALSE(backend);
  REQUIRE_THAT(backend.error().message(),
               Catch::Contains("train.compute_type: fp16") && Catch::Contains("use bf16 or fp32"));
  REQUIRE_FALSE(make_onednn_backend({.threads = 0}));
}

TEST_CASE("Gradients do not depend on the alignment of bound memory") {
  NetworkHarness aligned(lenet(10), 4, 0);
  NetworkHarness unaligned(lenet(10), 4, 1);
  REQUIRE(aligned.forward() == unaligned.forward());
  REQUIRE(aligned.backward() == unaligned.backward());
  for (std::size_t key = 0; key < aligned.keys(); ++key) {
    INFO(aligned.network().parameters()[key].name);
    REQUIRE(std::equal(aligned.gradient(key).begin(), aligned.gradient(key).end(),
                       unaligned.gradient(key).begin()));
  }
}

TEST_CASE("Training a step works on parameters that are mapped read-only") {
  auto backend = make_onednn_backend({});
  REQUIRE(backend);
  auto network = Network::create(lenet(10), **backend, {.batch = 2});
  REQUIRE(network);
  std::vector<Binding> bindings;
  std::vector<std::vector<float>> gradients;
  std::vector<std::span<std::byte>> mappings;
  for (const ParameterSpec& spec : (*network)->parameters()) {
    const std::size_t bytes = spec.elements() * sizeof(float);
    void* mapping = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    mappings.emplace_back(static_cast<std::byte*>(mapping), bytes);
    gradients.emplace_back(spec.elements(), 1.0F);
    bindings.push_back({{static_cast<const float*>(mapping), spec.elements()}, gradients.back()});
  }
  REQUIRE((*network)->bind(bindings).ok());
  (*network)->input().write_value(std::vector<float>((*network)->input().elements(), 1.0F));
  NoHooks hooks;
  (*network)->output().write_gradient(std::vector<float>((*network)->output().elements(), 1.0F));
  REQUIRE((*network)->forward(Mode::kTraining, hooks).ok());
  REQUIRE((*network)->backward(hooks).ok());
  REQUIRE(gradients[0][0] == 0.0F);      // the weights above are 0
  REQUIRE(gradients.back()[0] == 2.0F);  // one from each image
  for (const auto mapping : mappings) munmap(mapping.data(), mapping.size());
}

// Keeps a layer's parameters poisoned outside weights_needed .. grad_ready.
struct PoisoningHooks : Hooks {
  explicit PoisoningHooks(NetworkHarness& harness) : owner(harness) {
    for (std::size_t key = 0; key < harness.keys(); ++key) {
      saved.emplace_back(harness.parameter(key).begin(), harness.parameter(key).end());
    }
    poison({0, static_cast<std::uint32_t>(harness.keys())});
  }
  void poison(const KeyRange& keys) {
    for (std::uint32_t key = keys.first; key < keys.first + keys.count; ++key) {
      std::fill(owner.parameter(key).begin(), owner.parameter(key).end(),
                std::numeric_limits<float>::quiet_NaN());
    }
  }
  Status weights_needed(const KeyRange& keys) override {
    order.push_back(static_cast<int>(keys.first));
    for (std::uint32_t key = keys.first; key < keys.first + keys.count; ++key) {
      std::copy(saved[key].begin(), saved[key].end(), owner.parameter(key).begin());
    }
    return {};
  }
  Status grad_ready(const KeyRange& keys) override {
    order.push_back(-static_cast<int>(keys.first) - 1);
    for (std::uint32_t key = keys.first; key < keys.first + keys.count; ++key) {
      for (const float value : owner.gradient(key)) finite = finite && std::isfinite(value);
    }
    poison(keys);
    return {};
  }

  NetworkHarness& owner;
  std::vector<std::vector<float>> saved;
  std::vector<int> order;
  bool finite = true;
};

TEST_CASE("Parameters are read between weights_needed and grad_ready only") {
  for (const Graph& graph : {lenet(10), resnet20(10)}) {
    NetworkHarness plain(graph, 2);
    plain.loss();
    const std::vector<float> by_input = plain.backward();
    NetworkHarness harness(graph, 2);
    PoisoningHooks hooks(harness);
    Network& network = harness.network();
    network.input().write_value(harness.input);
    REQUIRE(network.forward(Mode::kTraining, hooks).ok());
    std::vector<float> gradient(network.output().elements());
    harness.loss_weights(gradient);
    network.output().write_gradient(gradient);
    REQUIRE(network.backward(hooks).ok());
    REQUIRE(hooks.finite);
    for (std::size_t key = 0; key < harness.keys(); ++key) {
      REQUIRE(std::equal(plain.gradient(key).begin(), plain.gradient(key).end(),
                         harness.gradient(key).begin()));
    }
    // Forward from the first layer, backward from the last.
    const std::size_t half = hooks.order.size() / 2;
    REQUIRE(std::is_sorted(hooks.order.begin(), hooks.order.end() - static_cast<int>(half)));
    REQUIRE(hooks.order[half] == -hooks.order[half - 1] - 1);
  }
}

TEST_CASE("Feature maps are those that are written: not a normalisation's that is done in a sum") {
  Graph graph({.channels = 8, .height = 4, .width = 4});
  TensorId x = graph.add("conv", Convolution{.channels = 8, .bias = false}, {0});
  x = graph.add("bn", BatchNorm{}, {x});
  graph.add("sum", Add{.relu = true}, {x, 0});
  NetworkHarness harness(graph, 2);
  const std::uint64_t map = 2 * 8 * 4 * 4 * sizeof(float);
  const FeatureMaps maps = harness.network().feature_maps();
  // The harness' input has a gradient, and a second one as two layers read it.
  CHECK(maps.values == 3 * map);     // input, conv, sum
  CHECK(maps.gradients == 4 * map);  // the same, and the view
  Graph plain({.channels = 8, .height = 4, .width = 4});
  x = plain.add("conv", Convolution{.channels = 8, .bias = false}, {0});
  plain.add("bn", BatchNorm{}, {x});
  NetworkHarness other(plain, 2);
  CHECK(other.network().feature_maps().values == 3 * map);
  CHECK(other.network().feature_maps().gradients == 3 * map);
}

}  // namespace
}  // namespace phub::nn
