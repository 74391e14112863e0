// Lowered networks, interpreted on the host, against the oneDNN backend: forward, every gradient,
// running statistics; fused and unfused.
#include "worker/cuda/lowering/lowering.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/cuda/networks.h"
#include "tests/cuda/support/lowered_interpreter.h"
#include "tests/unit/nn/nn_harness.h"
#include "worker/cuda/lowered/memory_plan.h"
#include "worker/nn/models/models.h"

namespace phub::nn {
namespace {

using cuda::Lowered;
using cuda::LoweringOptions;
using phub::testing::LoweredInterpreter;

void check_close(const std::string& what, std::span<const float> is,
                 std::span<const float> expected, double tolerance) {
  REQUIRE(is.size() == expected.size());
  double largest = 0.0, worst = 0.0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    const double difference = std::abs(double{is[i]} - double{expected[i]});
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
    if (std::isnan(worst)) break;
  }
  INFO(what << ": differs by " << worst << ", the largest is " << largest);
  CHECK(largest > 0.0);
  CHECK(worst <= tolerance * largest);
}

// The same step on both; tolerances are relative to the largest element of an array.
void check_against_onednn(const Graph& graph, LoweringOptions options, double tolerance) {
  constexpr std::uint64_t kNoise = 12345;
  options.input_gradient = true;
  const auto lowered = cuda::lower(graph, options);
  INFO(lowered.error().message());
  REQUIRE(lowered);
  NetworkHarness harness(graph, options.batch);
  harness.backend().set_noise(kNoise);
  LoweredInterpreter interpreter(*lowered, kNoise);

  interpreter.write_image(lowered->input, harness.input, graph.input_shape().channels);
  for (std::size_t key = 0; key < harness.keys(); ++key) {
    interpreter.write_parameter(key, harness.parameter(key));
  }
  const std::int64_t outputs = graph.output_shape().channels;
  interpreter.run(lowered->inference);
  check_close("inference", interpreter.read_image(lowered->inference_output, outputs),
              harness.forward(Mode::kInference), tolerance);
  interpreter.run(lowered->forward);
  check_close("forward", interpreter.read_image(lowered->output, outputs), harness.forward(),
              tolerance);
  std::vector<float> weights(harness.network().output().elements());
  harness.loss_weights(weights);
  interpreter.write_image(lowered->output_gradient, weights, outputs);
  interpreter.run(lowered->backward);
  check_close("gradient by the input",
              interpreter.read_image(lowered->input_gradient, graph.input_shape().channels),
              harness.backward(), tolerance);
  for (std::size_t key = 0; key < harness.keys(); ++key) {
    check_close(harness.network().parameters()[key].name, interpreter.read_gradient(key),
                harness.gradient(key), tolerance);
  }
  std::vector<StateBuffer> buffers = harness.network().buffers();
  REQUIRE(buffers.size() == lowered->states.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CHECK(buffers[i].name == lowered->states[i].name);
    check_close(buffers[i].name,
                interpreter.buffer(lowered->states[i].buffer).first(buffers[i].values.size()),
                buffers[i].values, tolerance);
  }
}

TEST_CASE("Lowered networks compute what the oneDNN backend computes") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(false, true);
  INFO(name_of(type) << (fuse ? ", fused" : ", unfused"));
  const LoweringOptions options{.batch = 3, .compute_type = type, .fuse = fuse};
  SECTION("blocks of every kind") { check_against_onednn(testing::blocks(), options, 2e-4); }
  SECTION("LeNet") { check_against_onednn(lenet(10), options, 2e-4); }
  SECTION("ResNet-20") { check_against_onednn(resnet20(10), options, 2e-3); }
}

TEST_CASE("Any kind of layer can be the one that reads the images") {
  const LayerKind first = GENERATE(LayerKind{Dropout{.ratio = 0.2F}}, LayerKind{Relu{}},
                                   LayerKind{BatchNorm{}}, LayerKind{GlobalAveragePool{}},
                                   LayerKind{Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}}},
                                   LayerKind{Subsample{.channels = 8, .stride = 2}});
  INFO(name_of(first));
  Graph graph({.channels = 3, .height = 8, .width = 8});
  graph.add("fc", InnerProduct{.outputs = 5}, {graph.add("first", first, {0})});
  check_against_onednn(graph, {.batch = 3}, 2e-4);
}

template <typename Op>
std::size_t count(const std::vector<cuda::Step>& steps) {
  std::size_t found = 0;
  for (const cuda::Step& step : steps) {
    const auto* graph = std::get_if<cuda::GraphStep>(&step.work);
    if (graph == nullptr) continue;
    for (const cuda::Operation& operation : graph->graph.operations()) {
      if (std::holds_alternative<Op>(operation)) ++found;
    }
  }
  return found;
}

std::size_t count(const std::vector<cuda::Step>& steps, cuda::Kernel kernel) {
  return static_cast<std::size_t>(
      std::count_if(steps.begin(), steps.end(), [&](const cuda::Step& step) {
        const auto* own = std::get_if<cuda::KernelStep>(&step.work);
        return own != nullptr && own->kernel == kernel;
      }));
}

TEST_CASE("ResNet-20 in fp16 stores no normalised activation inside its blocks") {
  const auto fused = cuda::lower(resnet20(10), {.batch = 2});
  const auto unfused = cuda::lower(resnet20(10), {.batch = 2, .fuse = false});
  REQUIRE(fused);
  REQUIRE(unfused);
  // 19 convolutions feed 19 normalisations; the stem's and the block ends' are made on the way.
  // The images' convolution has its sums made behind it.
  CHECK(count<cuda::GenerateStatisticsOp>(fused->forward) == 18);
  CHECK(count(fused->forward, cuda::Kernel::kChannelStatistics) == 1);
  CHECK(count<cuda::BatchNormForwardOp>(fused->forward) == 0);
  CHECK(count<cuda::BatchNormForwardOp>(unfused->forward) == 19);
  // The second normalisation of a block sums on its own where pooling or a convolution with a
  // stride reads the block's output: at the end of each stage.
  CHECK(count<cuda::BatchNormBackwardOp>(fused->backward) == 3);
  CHECK(count<cuda::BatchNormBackwardWeightsOp>(fused->backward) == 16);
  CHECK(fused->forward.size() < unfused->forward.size() + 19);
}

// The buffers of this size that steps name.
std::set<cuda::BufferId> buffers_like(
    const Lowered& lowered, const cuda::Dimensions& dimensions,
    std::initializer_list<const std::vector<cuda::Step>*> passes) {
  std::set<cuda::BufferId> found;
  for (const auto* steps : passes) {
    for (const cuda::Step& step : *steps) {
      for (const cuda::BufferId id : step.buffers()) {
        if (lowered.buffer(id).dimensions == dimensions) found.insert(id);
      }
    }
  }
  return found;
}

TEST_CASE("ResNet-50's stem stores nothing of its size but what its convolution reads and writes") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const Graph graph = *make_model("resnet50");
  const LoweringOptions options{.batch = 2, .compute_type = type};
  const auto fused = cuda::lower(graph, options);
  REQUIRE(fused);
  const cuda::Dimensions large = {2, 64, 112, 112};
  // The convolution's output, and the gradient by it.
  CHECK(buffers_like(*fused, large, {&fused->forward}).size() == 1);
  CHECK(buffers_like(*fused, large, {&fused->forward, &fused->backward}).size() == 2);
  CHECK(count(fused->forward, cuda::Kernel::kScaledPool) == 1);
  CHECK(count(fused->backward, cuda::Kernel::kScaledPoolSums) == 1);
  CHECK(count(fused->backward, cuda::Kernel::kScaledPoolBackward) == 1);
  CHECK(count<cuda::PoolBackwardOp>(fused->backward) == 1);  // the average's

  LoweringOptions without = options;
  without.unfused = {{cuda::FusionKind::kPool, 1}};
  REQUIRE(graph.layers()[1].name == "bn1");
  const auto unfused = cuda::lower(graph, without);
  REQUIRE(unfused);
  CHECK(buffers_like(*unfused, large, {&unfused->forward, &unfused->backward}).size() == 5);
  CHECK(count(unfused->forward, cuda::Kernel::kScaledPool) == 0);
}

TEST_CASE("Pooling does a normalisation only with a ReLU, from statistics, alone and of maxima") {
  const auto pools = [](const Pool& pool, bool relu, bool bias, bool second_reader) {
    Graph graph({.channels = 3, .height = 12, .width = 12});
    TensorId x = graph.add("conv", Convolution{.channels = 8, .bias = bias}, {0});
    x = graph.add("bn", BatchNorm{.relu = relu}, {x});
    const TensorId pooled = graph.add("pool", pool, {x});
    TensorId y = graph.add("fc", InnerProduct{.outputs = 8}, {pooled});
    if (second_reader)
      y = graph.add("add", Add{}, {y, graph.add("mean", GlobalAveragePool{}, {x})});
    const auto lowered = cuda::lower(graph, {.batch = 2});
    REQUIRE(lowered);
    return count(lowered->forward, cuda::Kernel::kScaledPool) == 1;
  };
  const Pool maxima{PoolKind::kMax, {.kernel = 3, .stride = 2}};
  CHECK(pools(maxima, true, false, false));
  CHECK_FALSE(pools(maxima, false, false, false));
  CHECK_FALSE(pools(maxima, true, true, false));
  CHECK_FALSE(pools(maxima, true, false, true));
  CHECK_FALSE(pools({PoolKind::kAverage, maxima.window}, true, false, false));
  // An index of 8 bits names 127 places.
  CHECK(pools({PoolKind::kMax, {.kernel = {11, 11}}}, true, false, false));
  CHECK_FALSE(pools({PoolKind::kMax, {.kernel = {11, 12}}}, true, false, false));
}

TEST_CASE("Pooling does a normalisation only of images whose places are numbers of 32 bits") {
  const auto pools = [](std::uint32_t side, std::uint32_t stride) {
    Graph graph({.channels = 3, .height = side, .width = side});
    TensorId x = graph.add("conv", Convolution{.channels = 3, .bias = false}, {0});
    x = graph.add("bn", BatchNorm{.relu = true}, {x});
    x = graph.add("pool", Pool{PoolKind::kMax, {.kernel = 2, .stride = stride}}, {x});
    x = graph.add("mean", GlobalAveragePool{}, {x});
    graph.add("fc", InnerProduct{.outputs = 8}, {x});
    const auto lowered = cuda::lower(graph, {.batch = 1});
    REQUIRE(lowered);
    return count(lowered->forward, cuda::Kernel::kScaledPool) == 1;
  };
  CHECK(pools(16'000, 2));
  // 3 channels, which are 8 in memory.
  CHECK_FALSE(pools(26'000, 2));
  CHECK_FALSE(pools(16, 0xFFFF'FFFF));
}

TEST_CASE("A tuner sees each different graph of training once, in the order of the passes") {
  const auto lowered =
      cuda::lower(*make_model("resnet50"), {.batch = 256, .compute_type = DataType::kFloat16});
  REQUIRE(lowered);
  const auto training = cuda::different_graphs({&lowered->forward, &lowered->backward});
  CHECK(training.size() == 90);
  std::set<std::string> keys;
  for (const cuda::GraphStep* graph : training) CHECK(keys.insert(graph->graph.key()).second);
  CHECK(training.front() ==
        &std::get<cuda::GraphStep>(std::find_if(lowered->forward.begin(), lowered->forward.end(),
                                                [](const cuda::Step& step) {
                                                  return std::holds_alternative<cuda::GraphStep>(
                                                      step.work);
                                                })
                                       ->work));
  const auto all =
      cuda::different_graphs({&lowered->forward, &lowered->backward, &lowered->inference});
  CHECK(all.size() > training.size());
  CHECK(std::equal(training.begin(), training.end(), all.begin()));
}

TEST_CASE("In bf16 batch normalisation's backward is an operation of its own") {
  const auto lowered = cuda::lower(resnet20(10), {.batch = 2, .compute_type = DataType::kBfloat16});
  REQUIRE(lowered);
  CHECK(count<cuda::GenerateStatisticsOp>(lowered->forward) == 18);
  CHECK(count(lowered->forward, cuda::Kernel::kChannelStatistics) == 1);
  CHECK(count<cuda::BatchNormBackwardOp>(lowered->backward) == 19);
}

TEST_CASE("Buffers that are dead share their memory") {
  const auto lowered = cuda::lower(resnet20(10), {.batch = 128});
  REQUIRE(lowered);
  const cuda::MemoryPlan plan = cuda::plan_memory(*lowered, &cuda::Buffer::bytes);
  for (const std::size_t offset : plan.offsets) CHECK(offset % cuda::kBufferAlignment == 0);
  // Gradients die as backward goes on; what forward keeps for it does not.
  const std::size_t scratch = plan.bytes - plan.persistent_bytes;
  CHECK(scratch * 2 < plan.scratch_bytes_unshared);
}

TEST_CASE("What cannot be lowered is refused with the cure") {
  const auto message = [](const Graph& graph, const LoweringOptions& options) {
    const auto lowered = cuda::lower(graph, options);
    REQUIRE_FALSE(lowered);
    CHECK(lowered.error().code() == Code::kInvalidArgument);
    return lowered.error().message();
  };
  CHECK_THAT(message(lenet(10), {.batch = 0}), Catch::Contains("train.batch is 0"));
  CHECK_THAT(message(lenet(10), {.compute_type = DataType::kFloat32}),
             Catch::Contains("use fp16 or bf16"));
  Graph grouped({.channels = 4, .height = 8, .width = 8});
  grouped.add("conv", Convolution{.channels = 8, .groups = 2}, {0});
  CHECK_THAT(message(grouped, {}), Catch::Contains("layer conv") && Catch::Contains("of 8"));
  Graph unread({.channels = 8, .height = 8, .width = 8});
  unread.add("left", Relu{}, {0});
  unread.add("right", Relu{}, {0});
  CHECK_THAT(message(unread, {}), Catch::Contains("layer left is read by no layer"));
}

}  // namespace
}  // namespace phub::nn
