// Parts of a batch for workers of unequal speed.
#include "worker/train/shares.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "worker/data/feed/order.h"

namespace phub::train {
namespace {

TEST_CASE("A batch is divided by weight, and nothing of it is lost") {
  CHECK(divide_batch(std::vector{1.0F, 3.0F}, 64).value() == std::vector<std::uint32_t>{16, 48});
  CHECK(divide_batch(std::vector{1.0F, 1.0F, 1.0F}, 64).value() ==
        std::vector<std::uint32_t>{21, 22, 21});
  const std::vector<float> measured = {913.7F, 120.01F, 3310.4F, 877.0F, 1.0e3F};
  const auto parts = divide_batch(measured, 320).value();
  CHECK(std::accumulate(parts.begin(), parts.end(), 0U) == 320);
  CHECK(parts[1] < parts[0]);
  CHECK(parts[0] < parts[2]);
}

TEST_CASE("A batch of pairs is divided without cutting one") {
  CHECK(divide_batch(std::vector{1.0F, 1.0F, 1.0F}, 64, 2).value() ==
        std::vector<std::uint32_t>{22, 20, 22});
  CHECK(divide_batch(std::vector{1.0F, 62.0F}, 64, 2).value() == std::vector<std::uint32_t>{2, 62});
  CHECK_FALSE(divide_batch(std::vector{1.0F, 65.0F}, 64, 2));
}

TEST_CASE("A worker that would have no image is named with the cure") {
  const auto none = divide_batch(std::vector{100.0F, 0.1F}, 64);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message(), Catch::Contains("train.share") &&
                                         Catch::Contains("worker 1") &&
                                         Catch::Contains("raise train.batch"));
}

TEST_CASE("Unequal parts are the same images as equal ones") {
  constexpr std::uint64_t kImages = 64;
  using Parts = std::vector<data::TrainingOptions>;
  const auto together = [](const Parts& parts, std::uint64_t step) {
    std::vector<std::uint32_t> all;
    for (const data::TrainingOptions& options : parts) {
      const data::TrainingOrder order(kImages, options);
      for (std::uint32_t slot = 0; slot < options.batch; ++slot) {
        all.push_back(order.shown(step, slot).image);
      }
    }
    return all;
  };
  const Parts even = {{.batch = 8, .workers = 2, .worker_index = 0},
                      {.batch = 8, .workers = 2, .worker_index = 1}};
  const Parts uneven = {
      {.batch = 4, .workers = 2, .worker_index = 0, .part = {.global = 16}},
      {.batch = 12, .workers = 2, .worker_index = 1, .part = {.global = 16, .first = 4}}};
  const std::uint64_t steps = data::TrainingOrder(kImages, even[0]).steps_per_epoch();
  CHECK(data::TrainingOrder(kImages, uneven[1]).steps_per_epoch() == steps);
  for (std::uint64_t step = 0; step < steps; ++step) {
    CHECK(together(even, step) == together(uneven, step));
  }
}

}  // namespace
}  // namespace phub::train
