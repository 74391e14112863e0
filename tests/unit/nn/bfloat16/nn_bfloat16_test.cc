// Mixed precision on CPUs: oneDNN's layers and models in bf16 against the reference's in fp64.
#include "tests/support/main/skipping_main.h"
#include "tests/unit/nn/nn_run.h"
#include "worker/nn/onednn/backend.h"

namespace phub::nn {
namespace {

std::unique_ptr<Backend> onednn(DataType type, std::uint32_t threads = 1) {
  auto backend = make_onednn_backend({.compute_type = type, .threads = threads});
  REQUIRE(backend);
  return std::move(*backend);
}

// bf16 has 8 bits: numbers are rounded by up to 2^-9 = 0.002 of themselves, by a root mean square
// of 0.0011 over all of them. A layer whose input and parameters are exact rounds its output once;
// backward a gradient is rounded, and normalisation works from a rounded input.
constexpr Tolerance kOneLayer{.output = 0.003, .gradient = 0.005};

TEST_CASE("Layers in bf16 are the reference's in fp64 but for rounding to 8 bits") {
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) {
      compare_with_fp64(each, onednn(DataType::kBfloat16), kOneLayer, DataType::kBfloat16);
    }
  }
}

std::vector<float> joined(const std::vector<std::vector<float>>& arrays) {
  std::vector<float> all;
  for (const auto& array : arrays) all.insert(all.end(), array.begin(), array.end());
  return all;
}

// Rounding adds up from layer to layer, and where a sum's sign changes with it, a ReLU lets another
// gradient through; normalisations over the few pixels of small images make both larger. So the
// measure is what rounding parameters and images to bf16 does to the reference in fp64: all that
// bf16 does is at most 3 times as far from exact (measured: 1.0 to 2.0 times, from LeNet's 0.7 % in
// the output and 3.5 % in the gradient to Inception-v3's 39 % and 134 %).
TEST_CASE("A step of each model in bf16 is as near to fp64 as its rounded parameters allow") {
  constexpr double kFactor = 3.0;
  for (const GraphCase& each : small_models()) {
    INFO(each.name);
    NetworkRun exact(each, make_double_backend());
    NetworkRun rounded(each, make_double_backend(), DataType::kBfloat16);
    NetworkRun run(each, onednn(DataType::kBfloat16));
    for (NetworkRun* one : {&exact, &rounded, &run}) {
      one->network().input().write_value(one->input);
      one->forward();
      one->backward();
    }
    CHECK(distance(run.output(), exact.output()) <=
          kFactor * distance(rounded.output(), exact.output()));
    const std::vector<float> gradient = joined(exact.gradients);
    CHECK(distance(joined(run.gradients), gradient) <=
          kFactor * distance(joined(rounded.gradients), gradient));
  }
}

TEST_CASE("A convolution's gradients on several threads are the reference's in fp64 all the same") {
  GraphCase each = one_layer_case("convolution", {16, 20, 21},
                                  Convolution{.channels = 32, .window = {3, 1, 1}, .bias = false});
  each.batch = 5;
  for (const std::uint32_t threads : {1U, 2U, 3U, 7U}) {  // more threads than images, too
    CAPTURE(threads);
    compare_with_fp64(each, onednn(DataType::kBfloat16, threads), kOneLayer, DataType::kBfloat16);
  }
}

TEST_CASE("Normalisations and sums on several threads are the reference's in fp64 all the same") {
  const Shape image{17, 29, 31};  // 15,283 elements
  for (const GraphCase& each : {normalised_sum_case(image, true), plain_sum_case(image, false),
                                plain_sum_case(image, true)}) {
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      CAPTURE(threads);
      compare_with_fp64(each, onednn(DataType::kBfloat16, threads), kOneLayer, DataType::kBfloat16);
    }
  }
}

TEST_CASE(
    "A network that ends in global pooling has logits in fp32, and their gradient goes back") {
  constexpr std::uint32_t kBatch = 2, kChannels = 8, kSide = 7;
  Graph graph({.channels = kChannels, .height = kSide, .width = kSide});
  graph.add("average", GlobalAveragePool{}, {0});
  const auto network = Network::create(graph, onednn(DataType::kBfloat16),
                                       {.batch = kBatch, .input_gradient = true});
  REQUIRE(network);
  // Whole numbers, which bf16 has; their averages it has not.
  std::vector<float> images((*network)->input().elements());
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 37 % 101);
  (*network)->input().write_value(images);
  class Nothing : public Hooks {
    Status weights_needed(const KeyRange&) override { return {}; }
    Status grad_ready(const KeyRange&) override { return {}; }
  } nothing;
  REQUIRE((*network)->forward(Mode::kTraining, nothing).ok());
  std::vector<float> logits(kBatch * kChannels);
  REQUIRE((*network)->read_output(logits).ok());
  constexpr std::size_t kPixels = kSide * kSide;
  for (std::size_t image = 0; image < kBatch; ++image) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      double sum = 0.0;
      for (std::size_t p = 0; p < kPixels; ++p) {
        sum += double{images[(image * kPixels + p) * kChannels + c]};
      }
      CHECK(double{logits[image * kChannels + c]} == Approx(sum / kPixels).epsilon(1e-6));
    }
  }
  const std::vector<float> gradient(logits.size(), 49.0F);
  (*network)->output().write_gradient(gradient);
  REQUIRE((*network)->backward(nothing).ok());
  std::vector<float> by_input(images.size());
  (*network)->input().read_gradient(by_input);
  for (const float each : by_input) CHECK(each == Approx(1.0F).epsilon(0.004));
}

}  // namespace
}  // namespace phub::nn

// A processor without bf16 kernels refuses it, which model_command_test looks at.
std::string phub::testing::missing() {
  const auto backend = nn::make_onednn_backend({.compute_type = DataType::kBfloat16});
  return backend ? "" : backend.error().message();
}
