// The worker's half of mixed precision and of large batches: loss scale, accumulated batches, label
// smoothing, residual branches that start at zero.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/tensors/safetensors.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "worker/nn/loss.h"
#include "worker/nn/models/models.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/schedule/loss_scaler.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

using testing::run;
using testing::small_session;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("A dynamic scale halves after a skipped step and doubles after so many good ones") {
  LossScaler scaler({.kind = LossScaling::kVoted, .scale = 1024.0F, .growth_steps = 3});
  std::vector<float> scales;
  for (const bool skipped : {true, true, false, false, false, false, false, true, false}) {
    REQUIRE(scaler.after_step(skipped).ok());
    scales.push_back(scaler.scale());
  }
  CHECK(scales == std::vector<float>{512, 256, 256, 256, 512, 512, 512, 256, 256});
  CHECK(scaler.good_steps() == 1);
}

TEST_CASE("A dynamic scale has a top, and at its bottom gradients are to blame") {
  LossScaler high({.kind = LossScaling::kVoted, .scale = LossScaler::kLargest, .growth_steps = 1});
  CHECK(high.after_step(false).ok());
  CHECK(high.scale() == LossScaler::kLargest);
  LossScaler low({.kind = LossScaling::kVoted, .scale = 2.0F * LossScaler::kSmallest});
  CHECK(low.after_step(true).ok());
  CHECK(low.after_step(true).code() == Code::kAborted);
  LossScaler fixed({.kind = LossScaling::kStatic, .scale = 128.0F});
  CHECK(fixed.after_step(true).ok());
  CHECK(fixed.scale() == 128.0F);
}

TEST_CASE("In fp32 a loss scale of a power of two changes no bit of a training") {
  const TemporaryDirectory directory;
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kLars}) {
    SessionOptions options = small_session();
    options.update.exclude_bias_from_lars = rule == RuleKind::kLars;
    options.checkpoint.path = directory.path / "plain";
    REQUIRE(run(options, rule));
    options.update.loss_scale = {.kind = LossScaling::kStatic, .scale = 256.0F};
    options.checkpoint.path = directory.path / "static";
    REQUIRE(run(options, rule));
    CHECK(directory.read("static") == directory.read("plain"));

    options.update.loss_scale = {.kind = LossScaling::kVoted, .scale = 4.0F, .growth_steps = 3};
    options.checkpoint.path = directory.path / "dynamic";
    REQUIRE(run(options, rule));
    const auto plain = read_safetensors(directory.path / "plain");
    const auto dynamic = read_safetensors(directory.path / "dynamic");
    REQUIRE(plain);
    REQUIRE(dynamic);
    REQUIRE(plain->tensors.size() == dynamic->tensors.size());
    for (std::size_t i = 0; i < plain->tensors.size(); ++i) {
      CHECK(plain->tensors[i].values == dynamic->tensors[i].values);
    }
    // 16 steps: five doublings from 4 to 128, in units of 2^-10, and one good step.
    CHECK(dynamic->metadata.at("loss_scale") == std::to_string(128 * 1024));
    CHECK(dynamic->metadata.at("loss_scale_good_steps") == "1");
  }
}

TEST_CASE("A run with a dynamic scale that was stopped and resumed ends like one that was not") {
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  options.update.loss_scale = {.kind = LossScaling::kVoted, .scale = 4.0F, .growth_steps = 3};
  options.checkpoint.path = directory.path / "whole";
  REQUIRE(run(options, RuleKind::kSgd));
  options.checkpoint.path = directory.path / "half";
  REQUIRE(run(options, RuleKind::kSgd, 5));
  options.checkpoint.resume = options.checkpoint.path;
  options.checkpoint.path = directory.path / "joined";
  REQUIRE(run(options, RuleKind::kSgd));
  CHECK(directory.read("joined") == directory.read("whole"));
}

TEST_CASE("A local exchange leaves out what is not finite: a key, or with a vote the step") {
  for (const LossScaling kind : {LossScaling::kStatic, LossScaling::kVoted}) {
    const LossScale scale{kind, kind == LossScaling::kStatic ? 2.0F : 1.0F};
    const auto exchange = make_local_exchange(
        {{.name = "a", .elements = 1}, {.name = "b", .elements = 1}}, RuleKind::kSgd, {}, scale);
    for (const KeyId key : {0U, 1U}) exchange->gradient(key)[0] = 8.0F;
    REQUIRE(exchange->initialise().ok());
    const auto step = [&](float first) {
      exchange->gradient(0)[0] = first;
      exchange->gradient(1)[0] = 4.0F;
      REQUIRE(exchange->set_hyper({.learning_rate = 0.5F}).ok());
      for (const KeyId key : {0U, 1U}) REQUIRE(exchange->push(key).ok());
      REQUIRE(exchange->end_step(2.0F).ok());
    };
    step(kInfinity);
    CHECK(exchange->step_was_skipped());
    CHECK(exchange->parameter(0)[0] == 8.0F);
    CHECK(exchange->parameter(1)[0] == (kind == LossScaling::kStatic ? 7.0F : 8.0F));
    step(4.0F);
    CHECK_FALSE(exchange->step_was_skipped());
    CHECK(exchange->parameter(0)[0] == 7.0F);
  }
}

TEST_CASE("Two accumulated half batches train as one whole batch does") {
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  options.checkpoint.path = directory.path / "whole";
  const auto whole = run(options);
  REQUIRE(whole);
  options.executor.batch = 4;
  options.update.accumulate = 2;
  options.checkpoint.path = directory.path / "halves";
  const auto halves = run(options);
  REQUIRE(halves);
  CHECK(halves->next_step == whole->next_step);
  const auto a = read_safetensors(directory.path / "whole");
  const auto b = read_safetensors(directory.path / "halves");
  REQUIRE(a->tensors.size() == b->tensors.size());
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t t = 0; t < a->tensors.size(); ++t) {
    for (std::size_t i = 0; i < a->tensors[t].values.size(); ++i) {
      const auto x = static_cast<double>(a->tensors[t].values[i]);
      const auto y = static_cast<double>(b->tensors[t].values[i]);
      difference += (x - y) * (x - y);
      size += x * x;
    }
  }
  CHECK(std::sqrt(difference / size) < 1e-5);
  options.update.accumulate = 17;
  const auto refused = run(options);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Catch::Contains("train.batch 4 and train.accumulate 17"));
}

TEST_CASE("Label smoothing is cross-entropy against a smoothed target, and its gradient fits") {
  const std::vector<nn::Label> labels = {2, 0};
  std::vector<float> logits = {0.5F, -1.0F, 2.0F, 1.5F, 0.25F, -0.5F};
  const nn::LossOptions options{.label_smoothing = 0.1F, .gradient_scale = 8.0};
  std::vector<float> gradient(logits.size());
  const nn::Loss loss = nn::softmax_cross_entropy(logits, labels, gradient, options);
  double expected = 0.0;
  for (std::size_t image = 0; image < 2; ++image) {
    double sum = 0.0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(static_cast<double>(logits[3 * image + c]));
    for (std::size_t c = 0; c < 3; ++c) {
      const double target = (c == labels[image] ? 0.9 : 0.0) + 0.1 / 3.0;
      expected -= target * (static_cast<double>(logits[3 * image + c]) - std::log(sum));
    }
  }
  CHECK(loss.sum == Approx(expected).epsilon(1e-6));
  constexpr float kStep = 1e-2F;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float kept = logits[i];
    std::vector<float> unused(logits.size());
    logits[i] = kept + kStep;
    const double above = nn::softmax_cross_entropy(logits, labels, unused, options).sum;
    logits[i] = kept - kStep;
    const double below = nn::softmax_cross_entropy(logits, labels, unused, options).sum;
    logits[i] = kept;
    // Of the mean over two images, scaled by 8.
    const double slope = (above - below) / (2.0 * static_cast<double>(kStep)) / 2.0 * 8.0;
    CHECK(static_cast<double>(gradient[i]) == Approx(slope).margin(1e-3));
  }
}

TEST_CASE("The last scale of each residual branch can start at 0") {
  const auto graph = nn::make_model("resnet20", {.classes = 10, .zero_gamma = true});
  REQUIRE(graph);
  // After one step with a tiny rate it is still near 0, the others near 1.
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  options.model = "resnet20";
  options.graph = *graph;
  options.max_steps = 1;
  options.evaluate = false;
  options.update.schedule.learning_rate = 1e-6F;
  options.checkpoint.path = directory.path / "c";
  REQUIRE(run(options));
  const auto file = read_safetensors(directory.path / "c");
  REQUIRE(file);
  for (const char* const name : {"layer1.0.bn2.weight", "layer3.2.bn2.weight"}) {
    CHECK(std::fabs(file->find(name)->values[0]) < 1e-3F);
  }
  CHECK(file->find("layer1.0.bn1.weight")->values[0] == Approx(1.0F).margin(1e-3));
}

}  // namespace phub::train
