// The loss of mixed images, which have two labels, and its gradient, on each executor of CPUs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "worker/nn/network.h"
#include "worker/train/backends.h"

namespace phub::nn {
namespace {

constexpr std::size_t kImages = 6, kClasses = 5;

// As mixup makes them; one pair has one label.
const std::vector<Label> kFirst = {2, 0, 4, 1, 3, 3}, kSecond = {0, 2, 1, 4, 3, 3};
const std::vector<float> kShares = {0.75F, 0.75F, 0.5F, 0.5F, 0.875F, 0.875F};

double wanted_share(std::size_t image, std::size_t c, double smoothing) {
  const double share = kShares[image];
  const double of_labels =
      (c == kFirst[image] ? share : 0.0) + (c == kSecond[image] ? 1.0 - share : 0.0);
  return (1.0 - smoothing) * of_labels + smoothing / static_cast<double>(kClasses);
}

struct Expected {
  double loss = 0.0;
  std::uint32_t correct = 0;
  std::vector<double> gradient;  // [image][class], of the mean over images
};

// By the definition, in double precision.
Expected expected_of(const std::vector<float>& logits, double smoothing) {
  Expected all;
  for (std::size_t image = 0; image < kImages; ++image) {
    const auto row = std::span(logits).subspan(image * kClasses, kClasses);
    double sum = 0.0;
    for (const float logit : row) sum += std::exp(double{logit});
    for (std::size_t c = 0; c < kClasses; ++c) {
      const double log_softmax = double{row[c]} - std::log(sum);
      all.loss -= wanted_share(image, c, smoothing) * log_softmax;
      all.gradient.push_back((std::exp(log_softmax) - wanted_share(image, c, smoothing)) / kImages);
    }
    const auto largest = std::max_element(row.begin(), row.end()) - row.begin();
    all.correct += largest == kFirst[image] ? 1U : 0U;
  }
  return all;
}

TEST_CASE("A mixed image's loss is that of both labels, and its gradient fits") {
  const float smoothing = GENERATE(0.0F, 0.1F);
  const Labels labels(kFirst, kSecond, kShares);
  const LossOptions options{.label_smoothing = smoothing};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-3.0F, 3.0F);
  std::vector<float> logits(kImages * kClasses), gradient(logits.size()), unused(logits.size());
  for (float& logit : logits) logit = uniform(random);
  const Loss loss = softmax_cross_entropy(logits, labels, gradient, options);
  const Expected expected = expected_of(logits, double{smoothing});
  CHECK(loss.sum == Approx(expected.loss).epsilon(1e-6));
  CHECK(loss.correct == expected.correct);
  constexpr float kStep = 1e-2F;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float kept = logits[i];
    logits[i] = kept + kStep;
    const double above = softmax_cross_entropy(logits, labels, unused, options).sum;
    logits[i] = kept - kStep;
    const double below = softmax_cross_entropy(logits, labels, unused, options).sum;
    logits[i] = kept;
    CHECK(double{gradient[i]} ==
          Approx((above - below) / (2.0 * double{kStep}) / kImages).margin(1e-4));
  }
}

TEST_CASE("With all of the share at the first label, a mixed image is one that is not mixed") {
  const std::vector<float> logits = {0.5F, -1.0F, 2.0F, 1.5F, 0.25F, -0.5F};
  const std::vector<Label> first = {2, 0}, second = {1, 1};
  const std::vector<float> all = {1.0F, 1.0F};
  const LossOptions options{.label_smoothing = 0.1F};
  std::vector<float> mixed(logits.size()), plain(logits.size());
  const Loss loss = softmax_cross_entropy(logits, {first, second, all}, mixed, options);
  CHECK(loss.sum == softmax_cross_entropy(logits, first, plain, options).sum);
  CHECK(mixed == plain);
}

TEST_CASE("A part of labels has the second ones and the shares of its images") {
  const Labels labels(kFirst, kSecond, kShares);
  const Labels part = labels.part(4, 3);
  REQUIRE(part.size() == 2);
  CHECK(
      (part.first[1] == kFirst[5] && part.second[1] == kSecond[5] && part.share[1] == kShares[5]));
  CHECK(labels.part(6, 3).empty());
  CHECK_FALSE(Labels(kFirst).part(1, 2).are_mixed());
}

// Takes the loss.
struct LossTaker : Hooks {
  Status weights_needed(const KeyRange&) override { return {}; }
  Status loss_known(const Loss& told) override {
    loss = told;
    return {};
  }
  Status grad_ready(const KeyRange&) override { return {}; }
  Loss loss;
};

// One product of four numbers an image. The gradient of its biases is that of the logits, summed
// over images.
struct MixedProduct {
  explicit MixedProduct(const train::ExecutorOptions& options) {
    Graph graph({.channels = 4});
    graph.add("fc", InnerProduct{.outputs = kClasses}, {0});
    auto made = train::make_executor(graph, options);
    REQUIRE(made);
    executor = std::move(*made);
    std::mt19937 random(2);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<Binding> bindings;
    for (const ParameterSpec& spec : executor->parameters()) {
      parameters.emplace_back(spec.elements());
      gradients.emplace_back(spec.elements());
      for (float& value : parameters.back()) value = uniform(random);
    }
    for (std::size_t key = 0; key < parameters.size(); ++key) {
      bindings.push_back({parameters[key], gradients[key]});
    }
    REQUIRE(executor->bind(bindings).ok());
    images.resize(executor->input_elements());
    for (float& value : images) value = uniform(random);
  }

  std::vector<float> step(const Labels& labels, const LossOptions& options) {
    std::vector<float> logits(kImages * kClasses);
    REQUIRE(executor->load(images, labels).ok());
    REQUIRE(executor->forward(Mode::kTraining, told).ok());
    REQUIRE(executor->read_output(logits).ok());
    REQUIRE(executor->start_loss(options).ok());
    REQUIRE(executor->backward(told).ok());
    return logits;
  }

  std::vector<std::vector<float>> parameters, gradients;  // outlive who is bound to them
  std::unique_ptr<Executor> executor;
  std::vector<float> images;
  LossTaker told;
};

TEST_CASE("Each executor of CPUs takes both labels, and one of a later batch alone") {
  // Groups of three images cut a pair.
  const std::uint32_t groups = GENERATE(1U, 2U);
  const auto backend = GENERATE(train::BackendKind::kOnednn, train::BackendKind::kReference);
  const double smoothing = GENERATE(0.0, 0.1);
  MixedProduct product({.backend = backend, .batch = kImages, .groups = groups});
  const LossOptions options{.label_smoothing = static_cast<float>(smoothing),
                            .gradient_scale = 4.0};
  const std::vector<float> logits = product.step({kFirst, kSecond, kShares}, options);
  const Expected expected = expected_of(logits, smoothing);
  CHECK(product.told.loss.sum == Approx(expected.loss).epsilon(1e-5));
  CHECK(product.told.loss.correct == expected.correct);
  for (std::size_t c = 0; c < kClasses; ++c) {
    double sum = 0.0;
    for (std::size_t image = 0; image < kImages; ++image) {
      sum += 4.0 * expected.gradient[image * kClasses + c];
    }
    CHECK(double{product.gradients[1][c]} == Approx(sum).margin(1e-5));
  }
  static_cast<void>(product.step(kFirst, options));
  std::vector<float> unused(logits.size());
  const Loss plain = softmax_cross_entropy(logits, kFirst, unused, options);
  CHECK(product.told.loss.sum == Approx(plain.sum).epsilon(1e-5));
}

}  // namespace
}  // namespace phub::nn
