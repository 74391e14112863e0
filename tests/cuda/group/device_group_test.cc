// Two GPUs with NCCL between them, beside oneDNN in fp32 with the whole batch.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/group/group_rig.h"
#include "worker/cuda/group/group_collectives.h"
#include "worker/cuda/planned/runner.h"

namespace phub::nn::cuda {
namespace {

using testing::Descent;
using testing::distance;
using testing::require;

constexpr std::uint32_t kGpus = 2, kBatch = 8;  // of each

std::unique_ptr<GpuGroup> make_group(const Graph& graph, bool capture) {
  std::vector<GpuRank> gpus;
  std::vector<GroupDevice> devices;
  for (std::uint32_t device = 0; device < kGpus; ++device) {
    auto runtime = require(CudaRuntime::create(device, "train.devices"));
    devices.push_back({device, runtime.get()});
    auto runner = require(PlannedRunner::create(
        *runtime, graph, {.lowering = {.batch = kBatch, .compute_type = DataType::kFloat16}}));
    gpus.push_back(
        {device, require(DevicePasses::create(graph, std::move(runtime), std::move(runner),
                                              {.batch = kBatch, .capture = capture}))});
  }
  auto collectives = require(make_collectives(devices, {}));
  return require(GpuGroup::create(std::move(gpus), std::move(collectives), {}));
}

void step(Executor& executor, Descent& hooks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> images(executor.input_elements());
  for (float& pixel : images) pixel = 2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F - 1.0F;
  std::vector<Label> labels(executor.batch());
  for (Label& label : labels) label = static_cast<Label>(random() % 5);
  require(executor.load(images, labels));
  require(executor.forward(Mode::kTraining, hooks));
  require(executor.start_loss({.gradient_scale = 16.0}));
  require(executor.backward(hooks));
}

TEST_CASE("Steps on two GPUs are those of oneDNN with the whole batch, captured and not") {
  const Graph graph = testing::image_by_image();
  const auto group = make_group(graph, GENERATE(false, true));
  const auto network =
      require(Network::create(graph, require(make_onednn_backend({})), {.batch = kGpus * kBatch}));
  Descent own(network->parameters(), 5), oracle(network->parameters(), 5);
  own.learning_rate = oracle.learning_rate = 0.002F;
  require(group->bind(own.bindings()));
  require(network->bind(oracle.bindings()));
  for (unsigned number = 1; number <= 5; ++number) {
    step(*group, own, number);
    step(*network, oracle, number);
    INFO("step " << number);
    CHECK(own.loss.sum == Approx(oracle.loss.sum).epsilon(0.05));
    for (std::size_t key = 0; key < own.gradients.size(); ++key) {
      CHECK(distance(own.gradients[key], oracle.gradients[key]) < 0.05);
    }
    CHECK(own.not_finite == 0);
  }
}

TEST_CASE("Two GPUs that keep their parameters learn a batch by heart") {
  const auto group = make_group(testing::image_by_image(), true);
  Descent hooks(group->parameters(), 5);
  require(group->keep_parameters(hooks.parameters));
  double first = 0.0;
  for (unsigned number = 0; number < 60; ++number) {
    step(*group, hooks, 1);
    require(
        group->update({.learning_rate = 0.02F, .momentum = 0.9F, .gradient_scale = 1.0F / 16.0F}));
    if (number == 0) first = hooks.loss.sum;
  }
  CHECK(hooks.loss.sum < 0.5 * first);
}

}  // namespace
}  // namespace phub::nn::cuda
