// A group of GPUs on the host's runtimes, step for step against oneDNN: whatever order streams,
// events and collectives leave open, with as many GPUs as divide nothing evenly.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/cuda/group/group_rig.h"
#include "tests/cuda/kernels/typed_arrays.h"
#include "tests/cuda/networks.h"

namespace phub::nn::cuda {
namespace {

using testing::distance;
using testing::GroupRig;
using testing::require;

TEST_CASE("A step of several GPUs is the mean of what each computes, in whatever order") {
  const unsigned seed = GENERATE(range(1U, 9U));
  const std::size_t gpus = 1 + seed % 4;
  const bool capture = seed % 3 != 0;
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = gpus,
                                             .runtime = {.seed = seed},
                                             .capture = capture,
                                             .fuse = seed % 2 == 0,
                                             .parts = 1 + seed % 5});
  require(rig.group->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step, 0, step == 2);
    rig.step({.label_smoothing = 0.1F, .gradient_scale = step == 2 ? 4.0 : 1.0});
    rig.check_equal();
  }
  rig.check_buffers();
  for (const auto* runtime : rig.runtimes) CHECK((runtime->launches() > 0) == capture);
  CHECK(rig.notes.empty());
  CHECK(rig.own->not_finite == 0);
}

TEST_CASE("Where no layer looks at more than an image, several GPUs are one with the whole batch") {
  const std::size_t gpus = GENERATE(as<std::size_t>{}, 1, 2, 3, 4, 5);
  const std::size_t parts = GENERATE(as<std::size_t>{}, 1, 3, 16);
  GroupRig rig(testing::image_by_image(), {.gpus = gpus,
                                           .batch = 3,
                                           .whole = true,
                                           .runtime = {.seed = static_cast<unsigned>(gpus)},
                                           .parts = parts});
  require(rig.group->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 4; ++step) {
    rig.new_batch(step);
    rig.step({.gradient_scale = 2.0});
    rig.check_equal(1e-4);
  }
}

TEST_CASE(
    "Every layer is awaited once before a forward of several GPUs and told once in backward") {
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 3});
  require(rig.group->bind(rig.own->bindings()));
  std::set<std::uint32_t> layers;
  for (const KeyRange& keys : layer_keys(phub::nn::testing::blocks())) layers.insert(keys.first);
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
    if (step == 2) {
      rig.own->needed.clear();
      require(rig.group->forward(Mode::kInference, *rig.own));
    }
    CHECK(rig.own->needed.size() == layers.size());
    CHECK(std::set(rig.own->needed.begin(), rig.own->needed.end()) == layers);
    CHECK(rig.own->told.size() == layers.size());
    CHECK(std::set(rig.own->told.begin(), rig.own->told.end()) == layers);
  }
}

TEST_CASE("Memory that cannot be registered, and passes that cannot be captured, change nothing") {
  GroupRig rig(testing::image_by_image(),
               {.gpus = 3, .runtime = {.seed = 3, .registers = false, .captures = false}});
  require(rig.group->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 3; ++step) {
    rig.new_batch(step);
    rig.step();
    rig.check_equal();
  }
  CHECK(std::any_of(rig.notes.begin(), rig.notes.end(), [](const std::string& note) {
    return note.find("cannot be pinned") != std::string::npos;
  }));
}

// On one network with the first GPU's statistics, image by image.
void check_evaluation(GroupRig& rig, unsigned seed, std::size_t missing_labels) {
  const auto mine = require(rig.group->read_buffers());
  for (auto& network : rig.networks) {
    auto theirs = require(network->read_buffers());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::copy(mine[i].values.begin(), mine[i].values.end(), theirs[i].values.begin());
    }
  }
  rig.new_batch(seed, missing_labels);
  std::vector<float> own(rig.group->output_elements()), output;
  require(rig.group->forward(Mode::kInference, *rig.own));
  require(rig.group->read_output(own));
  for (auto& network : rig.networks) {
    testing::Listener listener;
    require(network->forward(Mode::kInference, listener));
    std::vector<float> rows(network->output_elements());
    require(network->read_output(rows));
    output.insert(output.end(), rows.begin(), rows.end());
  }
  CHECK(distance(own, output) < 2e-3);
}

TEST_CASE("Images that come as bytes go with their moves to the GPU that has them") {
  const std::size_t gpus = GENERATE(as<std::size_t>{}, 1, 3);
  GroupRig rig(testing::image_by_image(), {.gpus = gpus});
  require(rig.group->bind(rig.own->bindings()));
  const Shape shape = testing::image_by_image().input_shape();
  const std::size_t pixels = rig.group->input_elements() / rig.group->batch();
  std::vector<std::uint8_t> bytes;
  std::vector<ImageMove> moves;
  std::vector<float> images(rig.group->input_elements());
  const std::vector<float> mean(shape.channels, 0.5F), deviation(shape.channels, 0.25F);
  for (std::size_t image = 0; image < rig.group->batch(); ++image) {
    // Each column's own value, mirrored for every other image.
    const bool flip = image % 2 == 1;
    moves.push_back({.flip = flip});
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::size_t column = i / shape.channels % shape.width;
      bytes.push_back(static_cast<std::uint8_t>(10 * column + image));
      const std::size_t from = flip ? shape.width - 1 - column : column;
      images[image * pixels + i] = (static_cast<float>(10 * from + image) / 255.0F - 0.5F) / 0.25F;
    }
  }
  std::vector<float> expected(rig.group->output_elements()), output = expected;
  const std::vector<Label> labels(rig.group->batch());
  require(rig.group->load(images, labels));
  require(rig.group->forward(Mode::kInference, *rig.own));
  require(rig.group->read_output(expected));
  require(rig.group->byte_input()->load_bytes({bytes, moves, mean, deviation}, labels));
  require(rig.group->forward(Mode::kInference, *rig.own));
  require(rig.group->read_output(output));
  CHECK(distance(output, expected) < 1e-5);
}

TEST_CASE("Evaluation is with the first GPU's statistics on all, whoever has which image") {
  const unsigned seed = GENERATE(range(1U, 4U));
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 3, .runtime = {.seed = seed}});
  require(rig.group->bind(rig.own->bindings()));
  for (unsigned step = 1; step <= 2; ++step) {
    rig.new_batch(step);
    rig.step();
    rig.own->parameters = rig.oracle->parameters;
    check_evaluation(rig, 100 + step, 0);
    check_evaluation(rig, 200 + step, step == 1 ? 1 : 5);  // 5: the last GPUs have no label at all
  }
}

TEST_CASE("Statistics that are not read are shared before an evaluation all the same") {
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 2});
  require(rig.group->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.step();
  std::vector<float> outputs[2];
  for (std::vector<float>& output : outputs) {
    rig.new_batch(7);
    require(rig.group->forward(Mode::kInference, *rig.own));
    output.resize(rig.group->output_elements());
    require(rig.group->read_output(output));
    require(rig.group->read_buffers());
  }
  CHECK(outputs[0] == outputs[1]);
}

TEST_CASE("What is written to a group's buffers counts on every GPU from the next forward on") {
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 2});
  require(rig.group->bind(rig.own->bindings()));
  rig.new_batch(1);
  rig.step();
  rig.own->parameters = rig.oracle->parameters;
  for (nn::StateBuffer buffer : require(rig.group->read_buffers())) {
    for (float& value : buffer.values) value = 0.5F;
  }
  for (auto& network : rig.networks) {
    for (nn::StateBuffer buffer : require(network->read_buffers())) {
      for (float& value : buffer.values) value = 0.5F;
    }
  }
  rig.new_batch(2);
  rig.step();
  rig.check_equal();
  rig.check_buffers();
}

TEST_CASE("A sum that overflows where no part of it does is told") {
  // The same images everywhere, so that the parts are a third of the sum.
  constexpr std::size_t kGpus = 3;
  GroupRig rig(testing::image_by_image(), {.gpus = kGpus, .batch = 1, .parts = 1});
  testing::TypedArrays arrays(DataType::kFloat16, rig.own->parameters);
  require(rig.group->bind_typed({.type = DataType::kFloat16, .keys = arrays.bindings()}));
  rig.own->learning_rate = 0.0F;
  std::vector<float> images;
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
    for (std::size_t i = 0; i < rig.group->input_elements() / kGpus; ++i) {
      images.push_back(0.01F * static_cast<float>(i % 29) - 0.1F);
    }
  }
  const std::vector<Label> labels(kGpus);
  const auto largest = [&](double scale) {
    require(rig.group->load(images, labels));
    require(rig.try_step({.gradient_scale = scale}));
    float most = 0.0F;
    for (std::size_t key = 0; key < rig.own->parameters.size(); ++key) {
      for (const float value : arrays.gradient(key)) most = std::max(most, std::abs(value));
    }
    return double{most};
  };
  constexpr double kHalfMax = 65'504.0;
  const double unit = largest(64.0) / 64.0;
  REQUIRE(unit > 0.0);
  static_cast<void>(largest(0.9 * kHalfMax / unit));
  CHECK(rig.own->not_finite == 0);
  CHECK(std::isinf(largest(1.5 * kHalfMax / unit)));
  CHECK(rig.own->not_finite > 0);
}

TEST_CASE("Gradients are summed in the type that travels, and what overflows is told") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  GroupRig rig(testing::image_by_image(), {.gpus = 3, .whole = true, .runtime = {.seed = 7}});
  REQUIRE(rig.group->binds(type));
  // The oracle computes with the same, rounded numbers.
  testing::TypedArrays arrays(type, rig.oracle->parameters);
  require(rig.group->bind_typed({.type = type, .keys = arrays.bindings()}));
  rig.own->learning_rate = rig.oracle->learning_rate = 0.0F;
  rig.new_batch(1);
  rig.step();
  for (std::size_t key = 0; key < rig.oracle->gradients.size(); ++key) {
    // Each GPU's part is rounded, and so is each sum.
    CHECK(distance(arrays.gradient(key), rig.oracle->gradients[key]) <
          (type == DataType::kFloat16 ? 6e-3 : 2e-2));
  }
  CHECK(rig.own->not_finite == 0);
  for (const double scale : {1e9, 1.0}) {  // fits into bf16
    const std::size_t before = rig.own->not_finite;
    rig.new_batch(1);
    require(rig.try_step({.gradient_scale = scale}));
    CHECK((rig.own->not_finite > before) == (type == DataType::kFloat16 && scale > 1.0));
  }
}

TEST_CASE("Several GPUs that keep their parameters update them as a server would") {
  const unsigned seed = GENERATE(range(1U, 5U));
  GroupRig rig(phub::nn::testing::blocks(),
               {.gpus = seed, .runtime = {.seed = seed}, .capture = seed % 2 == 0});
  require(rig.group->keep_parameters(rig.own->parameters));
  std::vector<std::vector<float>> velocities;
  for (const auto& parameter : rig.oracle->parameters) velocities.emplace_back(parameter.size());
  const OwnRule rule{
      .learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 0.01F, .gradient_scale = 0.25F};
  for (unsigned step = 1; step <= 4; ++step) {
    rig.new_batch(step);
    require(rig.try_step({.gradient_scale = 4.0}));
    require(rig.group->update(rule));
    rig.oracle_step({.gradient_scale = 4.0}, false);
    CHECK(rig.own->loss.sum == Approx(rig.oracle->loss.sum).epsilon(2e-3));
    CHECK(rig.own->told.empty());
    for (std::size_t key = 0; key < velocities.size(); ++key) {
      const bool decays = rig.group->parameters()[key].decays();
      for (std::size_t i = 0; i < velocities[key].size(); ++i) {
        float& weight = rig.oracle->parameters[key][i];
        const float gradient =
            0.25F * rig.oracle->gradients[key][i] + (decays ? 0.01F * weight : 0.0F);
        velocities[key][i] = 0.9F * velocities[key][i] + gradient;
        weight -= 0.05F * velocities[key][i];
      }
    }
  }
}

TEST_CASE("Gradients that overflow make no step on any GPU that keeps its parameters") {
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 3});
  require(rig.group->keep_parameters(rig.own->parameters));
  double losses[2] = {};
  for (double& loss : losses) {
    rig.new_batch(1);
    require(rig.try_step({.gradient_scale = INFINITY}));
    require(rig.group->update({.learning_rate = 0.05F}));
    loss = rig.own->loss.sum;
  }
  CHECK(std::isfinite(losses[0]));
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("What one GPU alone finds not finite makes no step on any") {
  GroupRig rig(phub::nn::testing::blocks(), {.gpus = 3});
  require(rig.group->keep_parameters(rig.own->parameters));
  const auto loss_of = [&](unsigned seed) {
    rig.new_batch(seed);
    require(rig.try_step());
    return rig.own->loss.sum;
  };
  const double before = loss_of(1);
  std::vector<float> images(rig.group->input_elements(), 0.5F);
  images.back() = NAN;
  require(rig.group->load(images, std::vector<Label>(rig.group->batch())));
  require(rig.try_step());
  CHECK(std::isnan(rig.own->loss.sum));
  require(rig.group->update({.learning_rate = 0.05F}));
  CHECK(loss_of(1) == before);
}

}  // namespace
}  // namespace phub::nn::cuda
