// The specifications of the training kernels against what they must agree with elsewhere.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/training_reference.h"
#include "kernels/reference.h"
#include "worker/nn/loss.h"

namespace phub::kernels::cuda {
namespace {

std::vector<float> random_floats(std::size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(elements);
  for (float& value : values) value = uniform(random);
  return values;
}

constexpr DataType kSingle = DataType::kFloat32;

TEST_CASE("A parameter that is loaded and published comes back, and its padding is 0") {
  std::vector<float> plain(6 * 3 * 4), back(plain.size());
  std::iota(plain.begin(), plain.end(), 1.0F);
  std::vector<float> padded(8 * 4 * 4, -1.0F);
  ParameterTensor tensor{plain.data(), padded.data(), 6, 3, 4, 8, 4, kSingle, kSingle};
  const TensorChunk chunk{0, 0};
  reference::run(LoadParameters{&tensor, &chunk, 1});
  // Element [k = 1][c = 2][pixel = 3] lies at [1][3][2].
  CHECK(padded[(1 * 4 + 3) * 4 + 2] == plain[(1 * 3 + 2) * 4 + 3]);
  CHECK(padded[3] == 0.0F);          // c = 3
  CHECK(padded[6 * 4 * 4] == 0.0F);  // k = 6
  int not_finite = 0;
  tensor.plain = back.data();
  reference::run(PublishGradients{&tensor, &chunk, 1, 0.5F, &not_finite});
  for (float& value : back) value *= 2.0F;
  CHECK(back == plain);
  CHECK(not_finite == 0);
  padded[5] = std::nanf("");
  reference::run(PublishGradients{&tensor, &chunk, 1, 1.0F, &not_finite});
  CHECK(not_finite == 1);
}

TEST_CASE("Without smoothing the loss and its gradient are those of worker/nn/loss.h") {
  constexpr std::int64_t kImages = 5, kClasses = 10, kPadded = 16;
  const std::vector<float> logits = random_floats(kImages * kClasses, 1);
  const std::vector<nn::Label> labels = {3, 0, 9, 5, 5};
  std::vector<float> expected(logits.size());
  const nn::Loss loss = nn::softmax_cross_entropy(logits, labels, expected);

  std::vector<float> rows(kImages * kPadded, 50.0F), gradient(rows.size(), -1.0F);
  std::vector<float> losses(kImages);
  std::vector<std::int32_t> correct(kImages), targets(labels.begin(), labels.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rows[i / kClasses * kPadded + i % kClasses] = logits[i];
  }
  reference::run(SoftmaxLoss{rows.data(), targets.data(), gradient.data(), losses.data(),
                             correct.data(), kSingle, kImages, kClasses, kPadded, 0.0F,
                             1.0F / kImages});
  CHECK(std::accumulate(losses.begin(), losses.end(), 0.0) == Approx(loss.sum));
  CHECK(std::accumulate(correct.begin(), correct.end(), 0U) == loss.correct);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::size_t c = i % kPadded;
    const float is = c < kClasses ? expected[i / kPadded * kClasses + c] : 0.0F;
    CHECK(gradient[i] == Approx(is).margin(1e-7));
  }
}

TEST_CASE("Local momentum and Nesterov are the server's rules, for each tensor that decays") {
  const auto [rule, local] = GENERATE(std::pair{RuleKind::kMomentum, LocalRule::kMomentum},
                                      std::pair{RuleKind::kNesterov, LocalRule::kNesterov});
  std::vector<float> weights = random_floats(100, 1), velocity = random_floats(100, 2);
  const std::vector<float> gradient = random_floats(100, 3);
  std::vector<float> expected = weights, expected_velocity = velocity;
  const Source source{reinterpret_cast<const std::byte*>(gradient.data()), kSingle};
  kernels::reference::update({.sources = {&source, 1},
                              .elements = 100,
                              .rule = rule,
                              .hyper = {0.1F, 0.9F, 0.5F, 0.0F},
                              .weight_decay = 1e-2F,
                              .parameters = expected.data(),
                              .state = expected_velocity.data()});
  const OptimizedTensor tensor{
      weights.data(), velocity.data(), gradient.data(), 100, kSingle, true};
  const TensorChunk chunk{0, 0};
  const int skip = 0;
  OptimizerStep step{&tensor, &chunk, 1,    1,    local,   0.1F,    0.9F,
                     1e-2F,   0.5F,   0.0F, 0.0F, nullptr, nullptr, &skip};
  reference::run(step);
  CHECK(weights == expected);
  CHECK(velocity == expected_velocity);
}

TEST_CASE("LARS moves a tensor by its share of its own norm") {
  std::vector<float> weights = {3.0F, 4.0F}, velocity = {0.0F, 0.0F};
  const std::vector<float> gradient = {0.0F, 2.0F};
  const OptimizedTensor tensor{weights.data(), velocity.data(), gradient.data(), 2, kSingle, true};
  const TensorChunk chunk{0, 0};
  const int skip = 0;
  float trust = 0.0F;
  reference::run(OptimizerStep{&tensor, &chunk, 1, 1, LocalRule::kLars, 1.0F, 0.0F, 0.0F, 1.0F,
                               0.01F, 0.0F, nullptr, &trust, &skip});
  CHECK(trust == Approx(0.01 * 5.0 / 2.0));
  CHECK(weights[0] == 3.0F);
  CHECK(weights[1] == Approx(4.0 - 0.025 * 2.0));
}

}  // namespace
}  // namespace phub::kernels::cuda
