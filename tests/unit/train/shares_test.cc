// Parts of a batch for workers of unequal speed.
#include "worker/train/shares.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "worker/data/loader.h"

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

TEST_CASE("A worker that would have no image is named with the cure") {
  const auto none = divide_batch(std::vector{100.0F, 0.1F}, 64);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message(), Catch::Contains("train.share") &&
                                         Catch::Contains("worker 1") &&
                                         Catch::Contains("raise train.batch"));
}

TEST_CASE("Unequal parts are the same images as equal ones") {
  const data::Dataset images =
      data::make_synthetic({.height = 4, .width = 4, .images = 64}).value().train;
  const auto loader = [&](std::uint32_t batch, std::uint32_t index, data::BatchPart part) {
    return std::move(*data::Loader::create(
        images, {.batch = batch, .workers = 2, .worker_index = index, .part = part}));
  };
  const auto together = [](data::Loader& first, data::Loader& second, std::uint64_t step) {
    const auto one = first.samples(0, step);
    std::vector<std::uint32_t> all(one.begin(), one.end());
    const auto two = second.samples(0, step);
    all.insert(all.end(), two.begin(), two.end());
    return all;
  };
  const auto even = std::pair(loader(8, 0, {}), loader(8, 1, {}));
  const auto uneven =
      std::pair(loader(4, 0, {.global = 16}), loader(12, 1, {.global = 16, .first = 4}));
  CHECK(uneven.first->steps_per_epoch() == even.first->steps_per_epoch());
  for (std::uint64_t step = 0; step < even.first->steps_per_epoch(); ++step) {
    CHECK(together(*even.first, *even.second, step) ==
          together(*uneven.first, *uneven.second, step));
  }
}

}  // namespace
}  // namespace phub::train
