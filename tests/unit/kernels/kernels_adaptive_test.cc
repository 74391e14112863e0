// Rules adam, adamw and adagrad over many updates against the same in double, and their factors.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/adaptive.h"
#include "kernels/clip.h"
#include "kernels/lamb.h"
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

// Of You et al., 2020 (arXiv 1904.00962), in double: adam's direction with decay, times a trust.
TEST_CASE("200 updates of lamb stay within 1e-5 of the same in double") {
  for (const bool is_plain : {false, true}) {
    std::mt19937 random(19);
    Array weights = random_array(DataType::kFloat32, kElements, random, false);
    Array state(DataType::kFloat32, 2 * kElements);
    for (std::size_t i = 0; i < 2 * kElements; ++i) state.set(i, 0.0F);
    Oracle oracle;
    for (std::size_t i = 0; i < kElements; ++i) oracle.weights[i] = weights.value(i);
    double trusts = 0.0;
    for (int step = 0; step < 200; ++step) {
      Array sum = random_array(DataType::kFloat32, kElements, random, false);
      ++oracle.steps;
      std::vector<double> directions;
      double weight_squares = 0.0;
      double direction_squares = 0.0;
      for (std::size_t i = 0; i < kElements; ++i) {
        const double w = oracle.weights[i];
        directions.push_back(oracle.direction(RuleKind::kLamb, i, sum.value(i)) +
                             double{kDecay} * w);
        weight_squares += w * w;
        direction_squares += directions[i] * directions[i];
      }
      const double trust = is_plain ? 1.0 : std::sqrt(weight_squares / direction_squares);
      for (std::size_t i = 0; i < kElements; ++i) {
        oracle.weights[i] -= double{rate_of(step)} * trust * directions[i];
      }
      const AdaptiveStep factors =
          adaptive_step(RuleKind::kLamb, kOptions, rate_of(step), static_cast<std::uint64_t>(step));
      const Source source = sum.source();
      Update u = {.sources = {&source, 1}, .elements = kElements, .rule = RuleKind::kLamb};
      u.hyper = {.learning_rate = rate_of(step), .gradient_scale = 1.0F};
      u.weight_decay = kDecay;
      u.adaptive = &factors;
      u.parameters = weights.floats();
      u.state = state.floats();
      u.state_stride = kElements;
      lamb_direction(u, sum.floats());
      u.trust = is_plain ? 1.0F
                         : lamb_trust(sum_of_squares(weights.floats(), kElements),
                                      sum_of_squares(sum.floats(), kElements));
      trusts += std::fabs(double{u.trust} - trust);
      update(u);
    }
    double furthest = 0.0;
    for (std::size_t i = 0; i < kElements; ++i) {
      furthest = std::max(furthest, std::fabs(double{weights.value(i)} - oracle.weights[i]));
    }
    CHECK(furthest < 1e-5);
    CHECK(trusts < 1e-3);
  }
}

TEST_CASE("the trust of lamb is a ratio of norms, and 1 where one is 0") {
  CHECK(lamb_trust(9.0, 36.0) == 0.5F);
  CHECK(lamb_trust(0.0, 36.0) == 1.0F);
  CHECK(lamb_trust(9.0, 0.0) == 1.0F);
  CHECK(lamb_trust(1e300, 1e-300) == std::numeric_limits<float>::max());
  CHECK(std::isnan(lamb_trust(INFINITY, 1.0)));
  CHECK(std::isnan(lamb_trust(1.0, NAN)));
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
  const AdaptiveStep lamb = adaptive_step(RuleKind::kLamb, kOptions, 0.5F, 0);
  CHECK(lamb.rate == 10.0F);  // the learning rate comes with the trust
  CHECK(lamb.root_scale == first.root_scale);
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
