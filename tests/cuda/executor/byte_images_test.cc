// Images that a device moves, normalises and converts are those that the loader makes in fp32, bit
// by bit: the kernel's specification (kernels_reference_test's and cuda_kernels_test's) on the same
// random moves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "tests/cuda/executor/executor_rig.h"
#include "worker/data/dataset.h"
#include "worker/train/batch_loading.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/initialise.h"
#include "worker/train/trainer.h"

namespace phub::nn::cuda {
namespace {

using testing::HostRunner;
using testing::HostRuntime;
using testing::require;

constexpr std::uint32_t kBatch = 5;

data::Dataset dataset(std::uint32_t channels) {
  data::Dataset made{.facts = {.channels = channels, .height = 7, .width = 6, .classes = 5}};
  std::mt19937 random(3);
  for (std::uint32_t image = 0; image < 23; ++image) {
    for (std::size_t i = 0; i < made.facts.image_bytes(); ++i) {
      made.pixels.push_back(static_cast<std::uint8_t>(random() >> 24U));
    }
    made.labels.push_back(static_cast<std::uint16_t>(random() % made.facts.classes));
  }
  for (std::uint32_t c = 0; c < channels; ++c) {
    made.facts.mean.push_back(0.4822F + 0.01F * static_cast<float>(c));
    made.facts.deviation.push_back(0.2435F + 0.02F * static_cast<float>(c));
  }
  return made;
}

// A network that does nothing to its input but to hand it to a product.
Graph reader(std::uint32_t channels) {
  Graph graph({.channels = channels, .height = 7, .width = 6});
  graph.add("fc", InnerProduct{.outputs = 5}, {0});
  return graph;
}

struct Loaded {
  explicit Loaded(const Graph& graph, unsigned seed = 1) {
    auto made = std::make_unique<HostRuntime>(HostRuntime::Options{.seed = seed});
    runtime = made.get();
    auto lowered = require(lower(graph, {.batch = kBatch}));
    auto host = std::make_unique<HostRunner>(*made, std::move(lowered));
    runner = host.get();
    executor = std::make_unique<CudaExecutor>(
        require(DevicePasses::create(graph, std::move(made), std::move(host), {.batch = kBatch})));
    hooks = std::make_unique<testing::Descent>(executor->parameters(), 1);
    require(executor->bind(hooks->bindings()));
  }

  // What the network reads, without the padding.
  std::vector<float> input(std::uint32_t channels) {
    require(executor->forward(Mode::kInference, *hooks));
    require(runtime->synchronise(Stream::kCompute));
    return read(channels);
  }
  // The same when the device comes to it. `to` stays until kCompute is done.
  void queue_input(std::uint32_t channels, std::vector<float>& to) {
    require(executor->forward(Mode::kInference, *hooks));
    require(runtime->queue(Stream::kCompute, [this, channels, &to] { to = read(channels); }));
  }
  std::vector<float> read(std::uint32_t channels) const {
    const BufferId id = runner->lowered().input;
    const auto* values = static_cast<const float*>(runner->address(id));
    const auto padded = static_cast<std::size_t>(runner->lowered().buffer(id).dimensions[1]);
    std::vector<float> plain;
    for (std::size_t pixel = 0; pixel < std::size_t{kBatch} * 7 * 6; ++pixel) {
      for (std::size_t c = 0; c < padded; ++c) {
        if (c < channels) plain.push_back(values[pixel * padded + c]);
        if (c >= channels) CHECK(values[pixel * padded + c] == 0.0F);
      }
    }
    return plain;
  }

  HostRuntime* runtime = nullptr;
  HostRunner* runner = nullptr;
  std::unique_ptr<testing::Descent> hooks;
  std::unique_ptr<CudaExecutor> executor;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("A device's training images are the loader's, moved by the same random numbers") {
  const std::uint32_t channels = GENERATE(1U, 3U, 4U);
  const std::uint32_t shift = GENERATE(0U, 2U, 9U);  // 9: past the edge
  const bool flip = GENERATE(false, true);
  const auto images = data::images_of(dataset(channels));
  const data::TrainingOrder order(
      images->images(), {.batch = kBatch, .seed = 11, .shift_pixels = shift, .flip = flip});
  Loaded loaded(reader(channels));
  data::Feeder on_host(*images, order, {});
  train::BatchLoading loading(*images, order, {.threads = GENERATE(0U, 2U)}, *loaded.executor);
  std::size_t moved = 0;
  for (std::uint64_t step = 0; step < 2 * order.steps_per_epoch(); ++step) {
    INFO("step " << step);
    data::Batch expected;
    require(on_host.load(step, expected));
    require(loading.load(step));
    CHECK(std::equal(expected.labels.begin(), expected.labels.end(), loading.labels().begin(),
                     loading.labels().end()));
    CHECK(same_bits(loaded.input(channels), expected.numbers));
    for (std::uint32_t slot = 0; slot < kBatch; ++slot) {
      const data::Move move = order.shown(step, slot).move;
      moved += move.down != 0 || move.flip ? 1 : 0;
    }
  }
  CHECK((moved > 0) == (shift > 0 || flip));
}

TEST_CASE("A device's test images are the loader's, also in a last batch that is not full") {
  const auto images = data::images_of(dataset(3));
  const data::EvaluationOrder order(images->images(), kBatch);
  Loaded loaded(reader(3));
  data::Feeder on_host(*images, order, {});
  train::BatchLoading loading(*images, order, {.threads = GENERATE(0U, 2U)}, *loaded.executor);
  for (std::uint64_t index = 0; index < order.batches(); ++index) {
    data::Batch expected;
    require(on_host.load(index, expected));
    require(loading.load(index));
    CHECK(same_bits(loaded.input(3), expected.numbers));
  }
}

TEST_CASE("Batches made ahead are the loader's, sent or not, taken or forgotten") {
  const auto images = data::images_of(dataset(3));
  const data::TrainingOrder order(images->images(),
                                  {.batch = kBatch, .seed = 7, .shift_pixels = 2, .flip = true});
  const data::EvaluationOrder all(images->images(), kBatch);
  const unsigned seed = GENERATE(range(1U, 33U));
  std::mt19937 random(seed);
  Loaded loaded(reader(3), seed);
  const train::FeedOptions feed{.threads = seed % 3};
  data::Feeder on_host(*images, order, {}), all_on_host(*images, all, {});
  train::BatchLoading loading(*images, order, feed, *loaded.executor);
  const std::uint64_t steps = order.steps_per_epoch();
  const auto check_training = [&](std::uint64_t step) {
    data::Batch expected;
    require(on_host.load(step, expected));
    require(loading.load(step));
    CHECK(std::equal(expected.labels.begin(), expected.labels.end(), loading.labels().begin(),
                     loading.labels().end()));
    return expected.numbers;
  };
  for (int turn = 0; turn < 40; ++turn) {
    INFO("seed " << seed << ", turn " << turn);
    const std::vector<float> expected = check_training(random() % steps);
    // Begun before the device has read the batch of now, which stays what it is.
    if (random() % 4 > 0) {
      require(loading.begin_ahead(random() % steps));
    }
    const bool is_sent_early = random() % 2 == 0;
    if (is_sent_early) require(loading.send_ahead());
    CHECK(same_bits(loaded.input(3), expected));
    for (auto again = random() % 3; again > 0; --again) {
      require(loading.send_ahead());
    }
    if (random() % 4 > 0) continue;
    // An evaluation in between, by others.
    loading.forget_ahead();
    train::BatchLoading other(*images, all, feed, *loaded.executor);
    data::Batch in_order;
    require(all_on_host.load(1, in_order));
    require(other.load(1));
    CHECK(same_bits(loaded.input(3), in_order.numbers));
  }
}

TEST_CASE("Batches follow each other while the device is busy with those before") {
  const auto images = data::images_of(dataset(3));
  const data::TrainingOrder order(images->images(),
                                  {.batch = kBatch, .seed = 7, .shift_pixels = 2, .flip = true});
  const unsigned seed = GENERATE(range(1U, 33U));
  Loaded loaded(reader(3), seed);
  data::Feeder on_host(*images, order, {});
  train::BatchLoading loading(*images, order, {.threads = seed % 3}, *loaded.executor);
  constexpr std::size_t kBatches = 9;
  std::vector<std::vector<float>> expected(kBatches), found(kBatches);
  for (std::size_t i = 0; i < kBatches; ++i) {
    const std::uint64_t step = i % order.steps_per_epoch();
    data::Batch batch;
    require(on_host.load(step, batch));
    expected[i] = batch.numbers;
    require(loading.load(step));
    loaded.queue_input(3, found[i]);  // nobody waits for it
  }
  require(loaded.runtime->synchronise(Stream::kCompute));
  for (std::size_t i = 0; i < kBatches; ++i) {
    INFO("seed " << seed << ", batch " << i);
    CHECK(same_bits(found[i], expected[i]));
  }
}

// What a training says of its steps and epochs.
struct Told : train::Observer {
  void on_step(const train::StepReport& report) override { losses.push_back(report.loss); }
  Status on_epoch(const train::EpochReport& report) override {
    accuracies.push_back(report.test_accuracy);
    return {};
  }
  std::vector<double> losses, accuracies;
};

constexpr std::size_t kStopAfter = 5;  // of four steps an epoch, or of two

Told train_on(Executor& executor, const data::Images& images, std::uint32_t accumulate) {
  std::vector<KeySpec> keys;
  for (const ParameterSpec& spec : executor.parameters()) {
    keys.push_back({.name = spec.name, .elements = spec.elements()});
  }
  const auto exchange = train::make_local_exchange(keys, RuleKind::kMomentum);
  for (KeyId key = 0; key < keys.size(); ++key) {
    train::fill_initial(executor.parameters()[key], 1, key, exchange->gradient(key));
  }
  require(exchange->initialise());
  require(train::bind(executor, *exchange));
  const data::TrainingOrder order(
      images.images(),
      {.batch = kBatch, .seed = 5, .accumulate = accumulate, .shift_pixels = 2, .flip = true});
  train::Trainer trainer({executor, *exchange, images, order, images},
                         {.epochs = 4,
                          .schedule = {.learning_rate = 0.02F},
                          .momentum = 0.9F,
                          .accumulate = accumulate});
  Told told;
  std::size_t steps = 0;
  // In the midst of an epoch a batch is ahead, which an evaluation takes the place of.
  require(trainer.run(told, [&] { return ++steps == kStopAfter; }));
  told.accuracies.push_back(require(trainer.evaluate()));
  require(trainer.run(told, [] { return false; }));
  return told;
}

TEST_CASE("A training whose batches are made ahead is one on a CPU") {
  const std::uint32_t accumulate = GENERATE(1U, 2U);
  const unsigned seed = GENERATE(range(1U, 7U));
  const auto images = data::images_of(dataset(3));
  const auto train_alike = [&](Executor& executor) {
    return train_on(executor, *images, accumulate);
  };
  testing::Rig rig(reader(3), {.runtime = {.seed = seed}, .batch = kBatch});
  const auto network =
      require(Network::create(reader(3), require(make_onednn_backend({})), {.batch = kBatch}));
  const Told own = train_alike(*rig.executor), oracle = train_alike(*network);
  REQUIRE(own.losses.size() == 4 * images->images() / (kBatch * accumulate));
  REQUIRE(oracle.losses.size() == own.losses.size());
  for (std::size_t step = 0; step < own.losses.size(); ++step) {
    INFO("step " << step);
    CHECK(own.losses[step] == Approx(oracle.losses[step]).epsilon(1e-3));
  }
  CHECK(own.accuracies == oracle.accuracies);
}

TEST_CASE("A step from bytes is oneDNN's from the same images in fp32, mixed or not") {
  const Graph graph = reader(3);
  const auto images = data::images_of(dataset(3));
  const unsigned seed = GENERATE(range(1U, 9U));
  const bool mixes = GENERATE(false, true);
  const std::uint32_t batch = mixes ? 6 : kBatch;
  const data::TrainingOrder order(
      images->images(),
      {.batch = batch, .seed = 5, .shift_pixels = 2, .flip = true, .mixup = mixes ? 0.8F : 0.0F});
  testing::Rig rig(graph, {.runtime = {.seed = seed}, .batch = batch, .capture = seed % 2 == 0});
  require(rig.executor->bind(rig.own->bindings()));
  train::BatchLoading own(*images, order, {}, *rig.executor);
  train::BatchLoading oracle(*images, order, {}, *rig.network);
  for (std::uint64_t step = 0; step < order.steps_per_epoch(); ++step) {
    require(own.load(step));
    if (seed % 4 < 2 && step + 1 < order.steps_per_epoch()) {
      require(own.begin_ahead(step + 1));
      require(own.send_ahead());
    }
    require(oracle.load(step));
    rig.step({.label_smoothing = mixes ? 0.1F : 0.0F});
    CHECK(rig.own->loss.sum == Approx(rig.oracle->loss.sum).epsilon(1e-4));
    CHECK(rig.own->loss.correct == rig.oracle->loss.correct);
    for (std::size_t key = 0; key < rig.own->gradients.size(); ++key) {
      CHECK(testing::distance(rig.own->gradients[key], rig.oracle->gradients[key]) < 2e-3);
    }
  }
}

}  // namespace
}  // namespace phub::nn::cuda
