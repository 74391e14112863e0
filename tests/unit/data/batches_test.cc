// Batches: which images they have, how they are moved, and that threads change nothing.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/data/feed/feeder.h"

namespace phub::data {
namespace {

Dataset numbered(std::uint32_t images) {
  auto both = make_synthetic({.channels = 1, .height = 5, .width = 5, .images = images});
  REQUIRE(both);
  return std::move(both->train);
}

std::vector<std::uint32_t> samples(const BatchOrder& order, std::uint64_t index) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t slot = 0; slot < order.batch(); ++slot) {
    all.push_back(order.shown(index, slot).image);
  }
  return all;
}

TEST_CASE("N workers with batch B see in each step what one worker with batch N * B sees") {
  const std::uint32_t workers = GENERATE(1U, 2U, 3U, 8U);
  constexpr std::uint32_t kBatch = 4;
  const auto images = images_of(numbered(103));
  const TrainingOptions alone{
      .batch = kBatch * workers, .seed = 5, .shift_pixels = 2, .flip = true};
  const TrainingOrder one(images->images(), alone);
  Feeder whole_feeder(*images, one, {});
  for (std::uint64_t index = 0; index < 3 * one.steps_per_epoch(); ++index) {
    Batch whole;
    REQUIRE(whole_feeder.load(index, whole).ok());
    std::vector<float> numbers;
    std::vector<std::uint16_t> labels;
    for (std::uint32_t i = 0; i < workers; ++i) {
      TrainingOptions options = alone;
      options.batch = kBatch;
      options.workers = workers;
      options.worker_index = i;
      const TrainingOrder order(images->images(), options);
      REQUIRE(order.steps_per_epoch() == one.steps_per_epoch());
      Feeder feeder(*images, order, {});
      Batch part;
      REQUIRE(feeder.load(index, part).ok());
      numbers.insert(numbers.end(), part.numbers.begin(), part.numbers.end());
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    REQUIRE(labels == whole.labels);
    REQUIRE(numbers == whole.numbers);
  }
}

TEST_CASE("Each epoch has each image once, whatever the batch, and epochs differ") {
  const std::uint32_t accumulate = GENERATE(1U, 3U);
  const TrainingOrder order(50, {.batch = 7, .accumulate = accumulate});
  std::vector<std::uint32_t> seen;
  for (std::uint64_t index = 0; seen.size() < 150; ++index) {
    const auto batch = samples(order, index);
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    REQUIRE(std::set(&seen[50 * epoch], &seen[50 * epoch] + 50).size() == 50);
  }
  REQUIRE_FALSE(std::equal(&seen[0], &seen[50], &seen[50]));
  REQUIRE(samples(TrainingOrder(50, {.batch = 7, .seed = 2}), 0) != samples(order, 0));
}

TEST_CASE("A batch that the data set cannot fill is refused with the figures") {
  const Status status = TrainingOrder::check(10, {.batch = 4, .workers = 3});
  REQUIRE_FALSE(status.ok());
  REQUIRE(status.message().find("12 images") != std::string::npos);
  REQUIRE(status.message().find("has 10") != std::string::npos);
  REQUIRE(TrainingOrder::check(12, {.batch = 4, .workers = 3}).ok());
  const Status more = TrainingOrder::check(12, {.batch = 4, .workers = 3, .accumulate = 2});
  REQUIRE(more.message().find("train.accumulate 2") != std::string::npos);
}

// One image of 3 x 3 pixels 1 .. 9, whose normalisation is pixel / 255.
Dataset small_image() {
  return {.facts = {.channels = 1,
                    .height = 3,
                    .width = 3,
                    .classes = 1,
                    .mean = {0.0F},
                    .deviation = {1.0F}},
          .pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9},
          .labels = {0}};
}

TEST_CASE("Augmentation shifts with black margins, flips, and reaches every variant") {
  const auto images = images_of(small_image());
  const TrainingOrder order(1, {.batch = 1, .shift_pixels = 1, .flip = true});
  Feeder feeder(*images, order, {});
  std::set<std::vector<int>> seen;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    Batch batch;
    REQUIRE(feeder.load(epoch, batch).ok());
    std::vector<int> pixels;
    for (const float value : batch.numbers)
      pixels.push_back(static_cast<int>(std::lround(value * 255.0F)));
    seen.insert(pixels);
  }
  REQUIRE(seen.size() == 18);  // 3 x 3 shifts, flipped or not
  REQUIRE(seen.count({1, 2, 3, 4, 5, 6, 7, 8, 9}) == 1);
  REQUIRE(seen.count({3, 2, 1, 6, 5, 4, 9, 8, 7}) == 1);
  REQUIRE(seen.count({0, 0, 0, 0, 1, 2, 0, 4, 5}) == 1);
  REQUIRE(seen.count({5, 6, 0, 8, 9, 0, 0, 0, 0}) == 1);
}

TEST_CASE("Images are normalised channel by channel and evaluated in order") {
  const auto images = images_of({.facts = {.channels = 2,
                                           .height = 1,
                                           .width = 1,
                                           .classes = 2,
                                           .mean = {0.5F, 0.25F},
                                           .deviation = {0.5F, 0.125F}},
                                 .pixels = {255, 0, 0, 255},
                                 .labels = {0, 1}});
  const EvaluationOrder order(2, 3);
  REQUIRE(order.batches() == 1);
  Feeder feeder(*images, order, {});
  Batch batch;
  REQUIRE(feeder.load(0, batch).ok());
  REQUIRE(batch.numbers == std::vector<float>{1.0F, -2.0F, -1.0F, 6.0F, -1.0F, 6.0F});
  REQUIRE(batch.labels == std::vector<std::uint16_t>{0, 1, 1});
}

}  // namespace
}  // namespace phub::data
