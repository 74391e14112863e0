// Does the comparison step by step pass a device that only rounds, and name the step of one that is
// wrong? The device is the interpreter, whose every buffer is rounded to its type.
#include "tests/cuda/support/step_comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <variant>

#include "tests/cuda/networks.h"
#include "tests/cuda/support/likeness.h"
#include "tests/cuda/support/rounding_device.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/models/models.h"

namespace phub::testing {
namespace {

using namespace nn::cuda;  // NOLINT(google-build-using-namespace)
using nn::cuda::testing::Likeness;

constexpr std::uint64_t kNoise = RoundingDevice::kNoise;

Lowered lowered_of(const nn::Graph& graph, DataType type, bool fuse, std::uint32_t batch = 2) {
  auto lowered = lower(graph, {.batch = batch, .compute_type = type, .fuse = fuse});
  REQUIRE(lowered);
  return std::move(*lowered);
}

std::vector<Difference> differences_of(const Lowered& lowered, std::int64_t classes,
                                       const Fault& fault = {}) {
  RoundingDevice device(lowered, fault);
  auto differences = StepComparison(lowered, device, {.input = 3, .output = classes}, kNoise).run();
  REQUIRE(differences);
  return std::move(*differences);
}

void check_all_right(const Lowered& lowered, std::int64_t classes) {
  for (const Difference& difference : differences_of(lowered, classes)) {
    FAIL_CHECK(difference.text());
  }
}

}  // namespace

TEST_CASE("A device that rounds to the buffers' types is right in every step") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  const bool fuse = GENERATE(false, true);
  INFO(name_of(type) << (fuse ? ", fused" : ", unfused"));
  check_all_right(lowered_of(nn::testing::blocks(), type, fuse), 5);
}

TEST_CASE("So it is in a deep network, where masks would turn from step to step") {
  check_all_right(lowered_of(nn::resnet20(10), DataType::kFloat16, true), 10);
}

namespace {

// One step forward and backward of a network that only rounds, and of the interpreter.
class RoundedStep {
 public:
  RoundedStep(const nn::Graph& graph, DataType type)
      : lowered_(lowered_of(graph, type, true, 16)), exact_(lowered_, kNoise), device_(lowered_) {
    std::size_t key = 0;
    for (const nn::Layer& layer : graph.layers()) {
      for (const nn::ParameterSpec& spec : layer.parameters) write_parameter(key++, spec);
    }
    write(lowered_.input, graph.input_shape().channels);
    run(Pass::kForward);
    write(lowered_.output_gradient, 5);
    run(Pass::kBackward);
  }
  const Lowered& lowered() const { return lowered_; }
  Likeness of(const ParameterLayout& layout) {
    const std::span<const float> expected = exact_.buffer(layout.gradient);
    std::vector<float> is(expected.size());
    REQUIRE(device_.read(layout.gradient, is).ok());
    return nn::cuda::testing::likeness(is, expected);
  }

 private:
  void write_parameter(std::size_t key, const nn::ParameterSpec& spec) {
    const float bound = spec.bias ? 0.2F : std::sqrt(6.0F / static_cast<float>(spec.fan_in()));
    std::vector<float> plain(spec.elements());
    for (float& value : plain) {
      value = bound * uniform_(random_) + (spec.fill == nn::Fill::kOne ? 1.0F : 0.0F);
    }
    exact_.write_parameter(key, plain);
    const BufferId id = lowered_.parameters[key].value;
    REQUIRE(device_.write(id, exact_.buffer(id)).ok());
  }
  void write(BufferId id, std::int64_t channels) {
    const std::span<float> values = exact_.buffer(id);
    const auto padded = static_cast<std::size_t>(lowered_.buffer(id).dimensions[1]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % padded < static_cast<std::size_t>(channels) ? uniform_(random_) : 0.0F;
    }
    REQUIRE(device_.write(id, values).ok());
  }
  void run(Pass pass) {
    exact_.run(steps_of(lowered_, pass));
    for (std::size_t i = 0; i < steps_of(lowered_, pass).size(); ++i) {
      REQUIRE(device_.run(pass, i).ok());
    }
  }

  const Lowered lowered_;
  LoweredInterpreter exact_;
  RoundingDevice device_;
  std::mt19937 random_{5};
  std::uniform_real_distribution<float> uniform_{-1.0F, 1.0F};
};

}  // namespace

// What tests of whole executors on a GPU allow must be more than rounding does.
TEST_CASE("A whole network's gradients in 16 bits are like those in fp32, though not near them") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  RoundedStep step(nn::testing::blocks(), type);
  for (const ParameterLayout& layout : step.lowered().parameters) {
    const Likeness found = step.of(layout);
    INFO(name_of(type) << " " << layout.name << ": cosine " << found.cosine << ", length "
                       << found.ratio);
    CHECK(nn::cuda::testing::is_alike(found, type));
  }
}

namespace {

bool is_pooling_of_ours(const Step& step) {
  const auto* kernel = std::get_if<KernelStep>(&step.work);
  return kernel != nullptr && kernel->kernel >= Kernel::kScaledPool;
}

}  // namespace

TEST_CASE("A step that does anything else is named, and no other") {
  const Lowered lowered = lowered_of(nn::testing::blocks(), DataType::kFloat16, true);
  for (const WrongBuffer& one : wrong_buffers()) {
    std::size_t tried = 0;
    for (const auto* steps : {&lowered.forward, &lowered.backward, &lowered.inference}) {
      for (const Step& step : *steps) {
        if (step.buffers().empty()) continue;
        const BufferId broken = step.buffers().back();
        const bool own = is_pooling_of_ours(step);
        // Of others' vectors of channels some nearly cancel, and have room for this.
        if (!own && lowered.buffer(broken).type == ElementType::kFloat32) continue;
        if (++tried % 7 != 0 && !own) continue;  // some of each pass
        const auto fault = [&](const Step& run, const LoweredInterpreter& memory) {
          if (&run == &step) one.apply(memory.buffer(broken));
        };
        INFO(one.what << " in " << step.name << ", " << lowered.buffer(broken).name);
        const auto found = differences_of(lowered, 5, fault);
        REQUIRE(!found.empty());
        for (const Difference& difference : found) {
          INFO(difference.text());
          CHECK(difference.step == step.name);
        }
      }
    }
    CHECK(tried > 20);
  }
}

}  // namespace phub::testing
