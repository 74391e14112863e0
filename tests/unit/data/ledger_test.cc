// What a run has used: runs that stop anywhere and go on with other workers, batches and threads
// see each sample once in each epoch.
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/unit/data/random_members.h"

namespace phub::data {
namespace {

TEST_CASE("After any stops, with other members each time, each sample comes once in each epoch") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::uint32_t images = between(random, 1, 120);
    RunPlace place;
    std::vector<std::uint32_t> seen;
    while (seen.size() < 3 * images) {
      const Members now = members(random, images, place);
      const std::uint32_t steps = between(random, 0, 5);
      for (std::uint64_t step = place.step; step < place.step + steps; ++step) {
        for (std::uint32_t part = 0; part < now.workers[0].accumulate; ++part) {
          for (const TrainingOptions& options : now.workers) {
            const TrainingOrder order(images, options);
            for (std::uint32_t slot = 0; slot < options.batch; ++slot) {
              seen.push_back(order.shown(step * options.accumulate + part, slot).image);
            }
          }
        }
      }
      place = {place.step + steps, TrainingOrder(images, now.workers[0]).used(place.step + steps)};
      REQUIRE(place.used == seen.size());
    }
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      const auto begin = seen.begin() + epoch * images;
      REQUIRE(std::set(begin, begin + images).size() == images);
    }
  }
}

TEST_CASE("The order of samples is that of earlier builds and of Python") {
  const SampleStream stream(10, 7);
  std::vector<std::uint32_t> first;
  for (std::uint64_t position = 0; position < 20; ++position) first.push_back(stream.at(position));
  CHECK(first ==
        std::vector<std::uint32_t>{0, 1, 5, 2, 3, 4, 8, 7, 9, 6, 5, 3, 4, 7, 2, 8, 6, 9, 0, 1});
}

TEST_CASE("Steps belong to epochs as their samples do") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::uint32_t images = between(random, 1, 60);
    const RunPlace start{between(random, 0, 9), between(random, 0, 2 * images)};
    const TrainingOrder order(images, members(random, images, start).workers[0]);
    for (std::uint64_t epochs = 0; epochs < 6; ++epochs) {
      const std::uint64_t end = order.steps_in(epochs);
      REQUIRE((order.used(end) <= epochs * images || end == start.step));
      REQUIRE(order.used(end + 1) > epochs * images);
    }
    for (std::uint64_t step = start.step; step < start.step + 20; ++step) {
      const std::uint64_t epoch = order.epoch_of(step);
      REQUIRE(step < order.steps_in(epoch + 1));
      REQUIRE((step == start.step || step >= order.steps_in(epoch)));
      REQUIRE(order.step_of_epoch(step) >= 1);
      REQUIRE(order.step_of_epoch(step) <= order.steps_per_epoch());
    }
  }
}

TEST_CASE("A learning rate goes on where it was, with steps of another size") {
  const TrainingOrder small(1000, {.batch = 10});
  CHECK(small.steps_alike(73) == 73);
  const TrainingOrder large(1000, {.batch = 50, .start = {.step = 30, .used = 300}});
  CHECK(large.steps_alike(30) == 6);
  CHECK(large.steps_alike(31) == 7);
  // A rate that drops with an epoch drops in the step that counts to it.
  const TrainingOrder after(96, {.batch = 10, .start = {.step = 11, .used = 88}});
  CHECK(after.epoch_of(11) == 1);
  CHECK(after.steps_alike(11) >= 96 / 10);
}

}  // namespace
}  // namespace phub::data
