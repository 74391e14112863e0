// Rules adam, adamw and adagrad over many updates against the same in double, and their factors.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/adaptive.h"
#include "kernels/clip.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr std::size_t kElements = 333;
constexpr float kDecay = 0.01F;
constexpr AdaptiveOptions kOptions = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

float rate_of(int step) { return 0.01F / (1.0F + 0.02F * static_cast<float>(step)); }

// The definitions of torch.optim (2.x, without amsgrad, maximize and lr_decay), in double.
struct Oracle {
  std::vector<double> weights = std::vector<double>(kElements);
  std::vector<double> means = weights;
  std::vector<double> squares = weights;
  int steps = 0;

  void step(RuleKind rule, const Array& gradients, double rate) {
    ++steps;
    for (std::size_t i = 0; i < kElements; ++i) {
      double g = gradients.value(i);
      double& w = weights[i];
      if (rule == RuleKind::kAdamW) {
        w *= 1.0 - rate * double{kDecay};
      } else {
        g += double{kDecay} * w;
      }
      w -= rate * direction(rule, i, g);
    }
  }
  double direction(RuleKind rule, std::size_t i, double g) {
    if (rule == RuleKind::kAdagrad) {
      squares[i] += g * g;
      return g / (std::sqrt(squares[i]) + kOptions.epsilon);
    }
    means[i] = kOptions.beta1 * means[i] + (1.0 - kOptions.beta1) * g;
    squares[i] = kOptions.beta2 * squares[i] + (1.0 - kOptions.beta2) * g * g;
    const double mean = means[i] / (1.0 - std::pow(kOptions.beta1, steps));
    const double square = squares[i] / (1.0 - std::pow(kOptions.beta2, steps));
    return mean / (std::sqrt(square) + kOptions.epsilon);
  }
};

}  // namespace

TEST_CASE("200 updates of the adaptive rules stay within 1e-5 of the same in double") {
  for (const RuleKind rule : {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad}) {
    CAPTURE(name_of(rule));
    std::mt19937 random(17);
    Array weights = random_array(DataType::kFloat32, kElements, random, false);
    Array state(DataType::kFloat32, 2 * kElements);
    for (std::size_t i = 0; i < 2 * kElements; ++i) state.set(i, 0.0F);
    Oracle oracle;
    for (std::size_t i = 0; i < kElements; ++i) oracle.weights[i] = weights.value(i);
    for (int step = 0; step < 200; ++step) {
      const Array gradients = random_array(DataType::kFloat32, kElements, random, false);
      const Source source = gradients.source();
      const AdaptiveStep factors =
          adaptive_step(rule, kOptions, rate_of(step), static_cast<std::uint64_t>(step));
      update({.sources = {&source, 1},
              .elements = kElements,
              .rule = rule,
              .hyper = {.learning_rate = rate_of(step), .gradient_scale = 1.0F},
              .weight_decay = kDecay,
              .adaptive = &factors,
              .parameters = weights.floats(),
              .state = state.floats(),
              .state_stride = kElements});
      oracle.step(rule, gradients, double{rate_of(step)});
    }
    double furthest = 0.0;
    for (std::size_t i = 0; i < kElements; ++i) {
      furthest = std::max(furthest, std::fabs(double{weights.value(i)} - oracle.weights[i]));
    }
    CHECK(furthest < 1e-5);
  }
}

TEST_CASE("the factors of an update correct the bias of its number, and none after many") {
  const AdaptiveStep first = adaptive_step(RuleKind::kAdam, kOptions, 0.5F, 0);
  CHECK(first.rate == 5.0F);
  CHECK(first.root_scale == Approx(std::sqrt(1000.0)));
  CHECK(first.add_square == 0.001F);
  CHECK(first.add_square != 1.0F - 0.999F);
  const AdaptiveStep second = adaptive_step(RuleKind::kAdamW, kOptions, 0.5F, 1);
  CHECK(second.rate == Approx(0.5 / (1.0 - 0.81)));
  CHECK(second.root_scale == Approx(1.0 / std::sqrt(1.0 - 0.999 * 0.999)));
  const AdaptiveStep late = adaptive_step(RuleKind::kAdam, kOptions, 0.5F, std::uint64_t{1} << 60U);
  CHECK(late.rate == 0.5F);
  CHECK(late.root_scale == 1.0F);
  const AdaptiveStep adagrad = adaptive_step(RuleKind::kAdagrad, kOptions, 0.5F, 0);
  CHECK(adagrad.rate == 0.5F);
  CHECK(adagrad.epsilon == 1e-8F);
}

TEST_CASE("moving averages equal the specification for every target and length") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(18);
    for (const std::size_t elements : kLengths) {
      CAPTURE(target, elements);
      const Array values = random_array(DataType::kFloat32, elements, random);
      Array averages = random_array(DataType::kFloat32, elements, random);
      Array expected = averages;
      const auto* const from = reinterpret_cast<const float*>(values.data());
      add_to_average(averages.floats(), from, 0.01F, elements);
      reference::add_to_average(expected.floats(), from, 0.01F, elements);
      REQUIRE(averages.same_as(expected));
    }
  });
}

TEST_CASE("gradients are clipped to a norm, and left alone below it") {
  CHECK(clip_coefficient(1.0F, 100.0, 0.5F) == Approx(0.2));
  CHECK(clip_coefficient(1.0F, 100.0, -0.5F) == Approx(0.2));
  CHECK(clip_coefficient(5.1F, 100.0, 0.5F) == 1.0F);
  CHECK(clip_coefficient(1.0F, 0.0, 1.0F) == 1.0F);
  CHECK(clip_coefficient(1e-6F, 1e-12, 1.0F) == Approx(0.5));  // PyTorch's 1e-6 in the denominator
  CHECK(std::isnan(clip_coefficient(1.0F, INFINITY, 1.0F)));
  CHECK(std::isnan(clip_coefficient(1.0F, NAN, 1.0F)));
}

TEST_CASE("powers by products are within some ulps of pow") {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 0.999999}) {
    for (const std::uint64_t exponent : {1U, 2U, 3U, 10U, 1000U, 123456U}) {
      CAPTURE(base, exponent);
      const double wanted = std::pow(base, static_cast<double>(exponent));
      CHECK(power(base, exponent) == Approx(wanted).epsilon(1e-10).margin(1e-300));
    }
  }
}

}  // namespace phub::kernels::test
