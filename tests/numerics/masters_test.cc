// What 16-bit parameters lose: updates that are smaller than half a step of the type at the
// parameter's size round to nothing, step after step. The server's fp32 masters keep them.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/lars.h"
#include "kernels/reduce.h"
#include "kernels/reference.h"

namespace phub::kernels {
namespace {

constexpr std::size_t kElements = 1U << 16;
constexpr int kMasterSteps = 20;
constexpr Hyper kHyper = {.learning_rate = 1.0F, .momentum = 0.0F, .gradient_scale = 1.0F};
constexpr LarsOptions kLars = {.coefficient = 0.001F};  // the paper's

struct Layer {
  std::vector<float> masters = std::vector<float>(kElements);
  std::vector<float> state = std::vector<float>(kElements);
  std::vector<float> gradient = std::vector<float>(kElements);
  std::vector<std::uint16_t> published = std::vector<std::uint16_t>(kElements);
};

// Weights as He et al. initialise them; gradients of both signs over three decades.
void begin(Layer& layer, std::mt19937& random) {
  std::normal_distribution<float> weight(0.0F, 0.02F);
  for (std::size_t i = 0; i < kElements; ++i) {
    layer.published[i] = reference::float16_from_float(weight(random));
    layer.masters[i] = reference::float_from_float16(layer.published[i]);
  }
}
void draw_gradient(Layer& layer, std::mt19937& random) {
  std::uniform_real_distribution<float> decades(-6.0F, -3.0F);
  for (float& value : layer.gradient) {
    value = std::pow(10.0F, decades(random)) * (random() % 2 == 0 ? 1.0F : -1.0F);
  }
}

// One step of lars on fp32 masters, as the server makes it.
void step(Layer& layer) {
  const Source source = {reinterpret_cast<const std::byte*>(layer.gradient.data()),
                         DataType::kFloat32};
  const float trust = trust_of(kLars,
                               {.parameters = sum_of_squares(layer.masters.data(), kElements),
                                .gradients = sum_of_squares(layer.gradient.data(), kElements)},
                               kHyper.gradient_scale, 0.0F);
  update({.sources = {&source, 1},
          .elements = kElements,
          .rule = RuleKind::kLars,
          .hyper = kHyper,
          .trust = trust,
          .parameters = layer.masters.data(),
          .state = layer.state.data(),
          .published = reinterpret_cast<std::byte*>(layer.published.data()),
          .published_type = DataType::kFloat16});
}

}  // namespace

TEST_CASE("fp16 parameters without masters lose most updates of lars, with fp32 masters none") {
  std::mt19937 random(2018);
  Layer with_masters;
  begin(with_masters, random);
  Layer without = with_masters;
  std::size_t lost_without = 0;
  std::size_t lost_with = 0;
  for (int i = 0; i < kMasterSteps; ++i) {
    draw_gradient(with_masters, random);
    without.gradient = with_masters.gradient;
    const std::vector<float> masters = with_masters.masters;
    const std::vector<std::uint16_t> halves = without.published;
    step(with_masters);
    step(without);
    for (std::size_t j = 0; j < kElements; ++j) {
      if (with_masters.masters[j] == masters[j]) ++lost_with;
      if (without.published[j] == halves[j]) ++lost_without;
      without.masters[j] = reference::float_from_float16(without.published[j]);  // it has no others
    }
  }
  constexpr double kUpdates = static_cast<double>(kElements) * kMasterSteps;
  const double share = static_cast<double>(lost_without) / kUpdates;
  std::printf("fp16 without masters loses %.1f %% of the updates, with fp32 masters %.1f %%\n",
              100.0 * share, 100.0 * static_cast<double>(lost_with) / kUpdates);
  CHECK(lost_with == 0);
  CHECK(share > 0.5);
  CHECK(share < 1.0);  // large updates of small parameters get through: the comparison is fair
}

TEST_CASE("with a loss scale the gradients survive fp16 that would be zero there without") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> decades(-10.0F, -7.0F);
  std::size_t zero_plain = 0;
  std::size_t zero_scaled = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    const float gradient = std::pow(10.0F, decades(random));
    zero_plain += reference::float16_from_float(gradient) == 0 ? 1U : 0U;
    zero_scaled += reference::float16_from_float(1024.0F * gradient) == 0 ? 1U : 0U;
  }
  std::printf("of gradients from 1e-10 to 1e-7 %.1f %% are 0 in fp16, scaled by 1024 %.1f %%\n",
              100.0 * static_cast<double>(zero_plain) / kElements,
              100.0 * static_cast<double>(zero_scaled) / kElements);
  CHECK(zero_plain > kElements / 2);
  CHECK(zero_scaled == 0);
}

}  // namespace phub::kernels
