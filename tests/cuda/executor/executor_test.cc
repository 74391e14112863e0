// A CUDA executor on the host's runtime, step for step against oneDNN: whatever order streams and
// events leave open, captured and not, with and without registered memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference.h"
#include "tests/cuda/executor/executor_rig.h"
#include "tests/cuda/kernels/typed_arrays.h"
#include "tests/cuda/networks.h"

namespace phub::nn::cuda {
namespace {

using testing::distance;
using testing::Rig;
using testing::RigOptions;

constexpr double kTolerance = 2e-3;

void check_equal(Rig& rig) {
  CHECK(rig.own->loss.sum == Approx(rig.oracle->loss.sum).epsilon(1e-4));
  CHECK(rig.own->loss.correct == rig.oracle->loss.correct);
  for (std::size_t key = 0; key < rig.own->gradients.size(); ++key) {
    INFO(rig.executor->parameters()[key].name);
    CHECK(distance(rig.own->gradients[key], rig.oracle->gradients[key]) < kTolerance);
    CHECK(distance(rig.own->parameters[key], rig.oracle->parameters[key]) < kTolerance);
  }
}

void check_buffers(Rig& rig) {
  const auto own = testing::require(rig.executor->read_buffers());
  const auto oracle = testing::require(rig.network->read_buffers());
  REQUIRE(own.size() == oracle.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(own[i].name == oracle[i].name);
    CHECK(distance(own[i].values, oracle[i].values) < kTolerance);
  }
}

TEST_CASE("Steps of an executor on a device are those of oneDNN, in whatever order work is done") {
  const unsigned seed = GENERATE(range(1U, 13U));
  const bool capture = seed % 2 == 0;
  Rig rig(phub::nn::testing::blocks(),
          {.runtime = {.seed = seed}, .capture = capture, .fuse = seed % 3 != 0});
  testing::require(rig.executor->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 4; ++step) {
    rig.new_batch(step, step == 2 || step == 3);
    rig.step({.label_smoothing = 0.1F, .gradient_scale = step == 2 ? 4.0 : 1.0});
    check_equal(rig);
  }
  check_buffers(rig);
  CHECK((rig.runtime->launches() > 0) == capture);
  CHECK(rig.notes.empty());
}

TEST_CASE("A device that hangs is given up at the deadline, and what it may write to stays") {
  for (const bool capture : {false, true}) {
    Rig rig(phub::nn::testing::blocks(),
            {.capture = capture, .timeout = std::chrono::milliseconds(50)});
    testing::require(rig.executor->bind(rig.own->bindings()));
    for (unsigned step = 1; step <= 2; ++step) {
      rig.new_batch(step);
      rig.step();
    }
    rig.runtime->hang();
    testing::require(rig.executor->forward(Mode::kTraining, *rig.own));
    testing::require(rig.executor->start_loss({}));
    const Status status = rig.executor->backward(*rig.own);
    CHECK(status.code() == Code::kDeadlineExceeded);
    CHECK_THAT(status.message(), Catch::Contains("50 ms") && Catch::Contains("timeout_ms"));
    rig.executor.reset();
    REQUIRE(rig.notes.size() == 1);
    CHECK_THAT(rig.notes.front(), Catch::Contains("left to the end of the process"));
  }
}

TEST_CASE("Each step of both passes is timed, with what it costs, and changes no number") {
  Rig rig(phub::nn::testing::blocks(), {});
  testing::require(rig.executor->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.step();
  const DeviceProfile profile = testing::require(rig.executor->time_steps(2));
  const Lowered& lowered = rig.passes->runner().lowered();
  REQUIRE(profile.steps.size() == lowered.forward.size() + lowered.backward.size());
  CHECK(profile.bytes_per_second > 0.0);
  std::uint64_t forward = 0, backward = 0;
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const StepTime& step = profile.steps[i];
    const bool is_forward = i < lowered.forward.size();
    CHECK(step.name ==
          (is_forward ? lowered.forward[i] : lowered.backward[i - lowered.forward.size()]).name);
    CHECK(step.pass == (is_forward ? "forward" : "backward"));
    CHECK(step.seconds > 0.0);
    CHECK(step.bytes > 0);
    (is_forward ? forward : backward) += step.flops;
  }
  // Gradients by the weights and by the inputs, but for the stem's input: with padded channels.
  CHECK(forward > 0);
  CHECK(backward > 3 * forward / 2);
  CHECK(backward < 2 * forward);
  rig.new_batch(2);
  rig.step();
  check_equal(rig);
  CHECK(rig.executor->time_steps(0).error().code() == Code::kInvalidArgument);
}

TEST_CASE("Every layer is awaited once before forward and told once in backward") {
  Rig rig(phub::nn::testing::blocks(), {});
  testing::require(rig.executor->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
    for (auto* keys : {&rig.own->needed, &rig.own->told, &rig.oracle->needed, &rig.oracle->told}) {
      std::sort(keys->begin(), keys->end());
    }
    CHECK(rig.own->needed == rig.oracle->needed);
    CHECK(rig.own->told == rig.oracle->told);
    CHECK(rig.own->not_finite == 0);
  }
}

TEST_CASE("Memory that cannot be registered is copied through pinned memory, which is told") {
  const bool all = GENERATE(false, true);
  Rig rig(phub::nn::testing::blocks(), {.runtime = {.seed = 3, .registers = !all}});
  testing::require(rig.executor->bind(rig.own->bindings()));
  CHECK(rig.notes.empty() == !all);
  if (all) CHECK_THAT(rig.notes.front(), Catch::Contains("cannot be pinned"));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
  }
  check_equal(rig);
}

TEST_CASE("A device that captures no passes runs them kernel by kernel, and says so once") {
  Rig rig(phub::nn::testing::blocks(), {.runtime = {.captures = false}});
  testing::require(rig.executor->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
  }
  check_equal(rig);
  REQUIRE(rig.notes.size() == 1);
  CHECK_THAT(rig.notes.front(), Catch::Contains("cannot be captured"));
}

TEST_CASE("Evaluation between steps uses the running statistics and leaves the steps alone") {
  const unsigned seed = GENERATE(range(1U, 5U));
  Rig rig(phub::nn::testing::blocks(), {.runtime = {.seed = seed}});
  testing::require(rig.executor->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
    std::vector<float> outputs[2];
    for (const unsigned batch : {100 + step, 200 + step}) {
      rig.new_batch(batch);
      for (std::size_t i = 0; i < 2; ++i) {
        Executor& executor = *rig.both()[i];
        testing::require(executor.forward(Mode::kInference, i == 0 ? *rig.own : *rig.oracle));
        outputs[i].resize(executor.output_elements());
        testing::require(executor.read_output(outputs[i]));
      }
      CHECK(distance(outputs[0], outputs[1]) < kTolerance);
    }
  }
  check_equal(rig);
  check_buffers(rig);
}

TEST_CASE("What is written to the buffers counts from the next forward on") {
  Rig rig(phub::nn::testing::blocks(), {});
  testing::require(rig.executor->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.step();
  for (Executor* each : rig.both()) {
    for (nn::StateBuffer buffer : testing::require(each->read_buffers())) {
      for (float& value : buffer.values) value = 0.5F;
    }
  }
  rig.new_batch(2);
  rig.step();
  check_buffers(rig);
}

TEST_CASE("Arrays of the type that travels are read and written as such") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  Rig rig(phub::nn::testing::blocks(), {.runtime = {.seed = 7}});
  REQUIRE(rig.executor->binds(type));
  // The oracle computes with the same, rounded numbers.
  testing::TypedArrays arrays(type, rig.oracle->parameters);
  testing::require(rig.executor->bind_typed({.type = type, .keys = arrays.bindings()}));
  rig.own->learning_rate = rig.oracle->learning_rate = 0.0F;
  rig.new_batch(1);
  rig.step();
  for (std::size_t key = 0; key < rig.oracle->gradients.size(); ++key) {
    CHECK(distance(arrays.gradient(key), rig.oracle->gradients[key]) <
          (type == DataType::kFloat16 ? 4e-3 : 1e-2));
  }
  CHECK(rig.own->not_finite == 0);

  rig.new_batch(1);
  rig.step({.gradient_scale = 1e9});  // fits into bf16
  CHECK((rig.own->not_finite > 0) == (type == DataType::kFloat16));
  const std::size_t before = rig.own->not_finite;
  rig.new_batch(1);
  rig.step();
  CHECK(rig.own->not_finite == before);
}

TEST_CASE("A loss that is refused ends backward before a gradient is told") {
  Rig rig(phub::nn::testing::blocks(), {});
  testing::require(rig.executor->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.own->status = Status(Code::kAborted, "no");
  testing::require(rig.executor->forward(Mode::kTraining, *rig.own));
  testing::require(rig.executor->start_loss({}));
  CHECK(rig.executor->backward(*rig.own).code() == Code::kAborted);
  CHECK(rig.own->told.empty());
}

TEST_CASE("An executor that keeps its parameters updates them as a server would") {
  const unsigned seed = GENERATE(range(1U, 7U));
  Rig rig(phub::nn::testing::blocks(), {.runtime = {.seed = seed}, .capture = seed % 2 == 0});
  testing::require(rig.executor->keep_parameters(rig.own->parameters));
  rig.oracle->learning_rate = 0.0F;
  std::vector<std::vector<float>> states;
  for (const auto& parameter : rig.oracle->parameters) states.emplace_back(2 * parameter.size());
  const RuleKind kind = GENERATE(RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kSgd,
                                 RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad);
  const OwnRule rule{.kind = kind,
                     .learning_rate = 0.05F,
                     .momentum = 0.9F,
                     .weight_decay = 0.01F,
                     .gradient_scale = 0.25F,
                     .adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 0.1}};
  for (unsigned step = 1; step <= 4; ++step) {
    rig.new_batch(step);
    rig.step({.gradient_scale = 4.0});
    testing::require(rig.executor->update(rule));
    CHECK(rig.own->loss.sum == Approx(rig.oracle->loss.sum).epsilon(2e-3));
    CHECK(rig.own->told.empty());
    const kernels::AdaptiveStep factors =
        kernels::adaptive_step(kind, rule.adaptive, rule.learning_rate, step - 1);
    for (std::size_t key = 0; key < states.size(); ++key) {
      const bool decays = rig.executor->parameters()[key].decays();
      const std::vector<float>& gradient = rig.oracle->gradients[key];
      const kernels::Source source{reinterpret_cast<const std::byte*>(gradient.data()),
                                   DataType::kFloat32};
      kernels::reference::update({.sources = {&source, 1},
                                  .elements = gradient.size(),
                                  .rule = kind,
                                  .hyper = {0.05F, 0.9F, 0.25F, 0.0F},
                                  .weight_decay = decays ? 0.01F : 0.0F,
                                  .adaptive = &factors,
                                  .parameters = rig.oracle->parameters[key].data(),
                                  .state = states[key].data(),
                                  .state_stride = gradient.size()});
    }
  }
}

TEST_CASE("Gradients that overflow make no step of an executor that keeps its parameters") {
  Rig rig(phub::nn::testing::blocks(), {});
  testing::require(rig.executor->keep_parameters(rig.own->parameters));
  const OwnRule rule{.learning_rate = 0.05F};
  double losses[2] = {};
  for (double& loss : losses) {
    rig.new_batch(1);
    rig.step({.gradient_scale = INFINITY});
    testing::require(rig.executor->update(rule));
    loss = rig.own->loss.sum;
  }
  CHECK(std::isfinite(losses[0]));
  CHECK(losses[0] == losses[1]);
  const Status refused = rig.executor->update({.kind = RuleKind::kMean});
  CHECK(refused.code() == Code::kInvalidArgument);
}

TEST_CASE("What an executor on a GPU cannot do is refused with the cure") {
  Graph pixels({.channels = 3, .height = 4, .width = 4});
  pixels.add("conv", Convolution{.channels = 8}, {0});
  Graph channels({.channels = 5, .height = 4, .width = 4});
  channels.add("fc", InnerProduct{.outputs = 4}, {0});
  const auto refusal = [](const Graph& graph) {
    auto runtime =
        std::make_unique<phub::testing::HostRuntime>(phub::testing::HostRuntime::Options{});
    auto runner = std::make_unique<phub::testing::HostRunner>(
        *runtime, testing::require(lower(graph, {.batch = 1})));
    return DevicePasses::create(graph, std::move(runtime), std::move(runner), {.batch = 1}).error();
  };
  CHECK_THAT(refusal(pixels).message(), Catch::Contains("global_average_pool"));
  CHECK_THAT(refusal(channels).message(), Catch::Contains("at most 4"));
}

}  // namespace
}  // namespace phub::nn::cuda
