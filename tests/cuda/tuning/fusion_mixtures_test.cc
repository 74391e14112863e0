// Whatever is chosen to be fused computes what the unfused network computes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/support/lowered_interpreter.h"
#include "tests/cuda/tuning/fusion_rig.h"

namespace phub::nn::cuda {
namespace {

using phub::testing::LoweredInterpreter;

// A step's results on the host.
struct Computed {
  std::map<std::string, std::vector<float>> arrays;
};

Computed compute(const Graph& graph, const Lowered& lowered, std::uint32_t batch) {
  LoweredInterpreter interpreter(lowered, 12345);
  std::mt19937 random(3);
  const auto draw = [&](std::size_t elements, double bound) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(elements);
    for (float& value : values) value = static_cast<float>(bound) * uniform(random);
    return values;
  };
  for (std::size_t key = 0; key < lowered.parameters.size(); ++key) {
    const ParameterLayout& p = lowered.parameters[key];
    const double fan_in = static_cast<double>(p.c * p.pixels);
    interpreter.write_parameter(
        key, draw(static_cast<std::size_t>(p.k * p.c * p.pixels), std::sqrt(3.0 / fan_in)));
  }
  const std::int64_t classes = graph.output_shape().channels;
  interpreter.write_image(lowered.input, draw(batch * graph.input_shape().elements(), 1.0),
                          graph.input_shape().channels);
  Computed all;
  interpreter.run(lowered.inference);
  all.arrays["inference"] = interpreter.read_image(lowered.inference_output, classes);
  interpreter.run(lowered.forward);
  all.arrays["forward"] = interpreter.read_image(lowered.output, classes);
  interpreter.write_image(lowered.output_gradient,
                          draw(batch * static_cast<std::size_t>(classes), 1.0), classes);
  interpreter.run(lowered.backward);
  all.arrays["input gradient"] =
      interpreter.read_image(lowered.input_gradient, graph.input_shape().channels);
  for (std::size_t key = 0; key < lowered.parameters.size(); ++key) {
    all.arrays["gradient of " + lowered.parameters[key].name] = interpreter.read_gradient(key);
  }
  for (const StateLayout& state : lowered.states) {
    const std::span<float> values = interpreter.buffer(state.buffer);
    all.arrays[state.name].assign(values.begin(), values.begin() + state.channels);
  }
  return all;
}

void check_same(const Computed& is, const Computed& expected, double tolerance) {
  REQUIRE(is.arrays.size() == expected.arrays.size());
  for (const auto& [name, values] : expected.arrays) {
    const std::vector<float>& own = is.arrays.at(name);
    REQUIRE(own.size() == values.size());
    // In the Euclidean norm: where a rounding error decides a ReLU, one element is another.
    double differences = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      differences += std::pow(double{own[i]} - double{values[i]}, 2);
      squares += std::pow(double{values[i]}, 2);
    }
    INFO(name << ": relative difference " << std::sqrt(differences / squares));
    CHECK(differences <= tolerance * tolerance * squares);
  }
}

TEST_CASE("Mixtures of fused and unfused blocks compute what the unfused network computes") {
  const std::string name = GENERATE("ResNet-20", "ResNet-50's blocks", "VGG-16's blocks",
                                    "GoogLeNet's blocks", "blocks of every kind");
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool is_large = name == "ResNet-20";
  const std::uint32_t batch = is_large ? 2 : 3;
  const Graph graph = network(name);
  const LoweringOptions options{.batch = batch, .compute_type = type, .input_gradient = true};
  LoweringOptions plain = options;
  plain.fuse = false;
  const Computed expected = compute(graph, require(lower(graph, plain)), batch);
  std::size_t mixed = 0;
  for (unsigned seed = 0; seed < (is_large ? 2U : 12U); ++seed) {
    INFO(name << ", " << name_of(type) << ", seed " << seed);
    std::mt19937 random(seed);
    const auto any = [&](const BlockAlternatives&) -> Result<BlockVerdict> {
      return random() % 3 == 0 ? BlockVerdict::kUnfused : BlockVerdict::kFused;
    };
    const ChosenLowering chosen = require(choose_fusion(graph, options, any));
    if (!chosen.unfused.empty() && chosen.unfused.size() < chosen.blocks) ++mixed;
    check_same(compute(graph, chosen.lowered, batch), expected, is_large ? 2e-3 : 2e-4);
  }
  CHECK(mixed > 0);
}

}  // namespace
}  // namespace phub::nn::cuda
