// MSTopK with the GPU's count: four rounds of the bisection in a pass end where one a pass does.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/training_reference.h"
#include "kernels/sparse.h"
#include "kernels/threshold_search.h"

namespace phub::kernels::cuda {
namespace {

static_assert(kCountedThresholds == kMaxThresholds);

TEST_CASE("A bisection that counts four rounds at once ends where one after the other does") {
  std::mt19937 random(51);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(20'000);
  for (float& value : values) value = normal(random);
  const Magnitudes all = measure_magnitudes(values);
  const auto count = [&](std::span<const float> thresholds, std::span<std::uint64_t> counts) {
    CountMagnitudes arguments{.values = values.data(),
                              .elements = static_cast<std::int64_t>(values.size()),
                              .thresholds = {},
                              .threshold_count = static_cast<int>(thresholds.size()),
                              .counts = nullptr};
    std::vector<unsigned long long> sums(thresholds.size());
    std::copy(thresholds.begin(), thresholds.end(), arguments.thresholds);
    arguments.counts = sums.data();
    reference::run(arguments);
    std::copy(sums.begin(), sums.end(), counts.begin());
  };
  for (const std::uint64_t k : {1U, 20U, 200U, 19'999U, 20'000U}) {
    for (const unsigned rounds : {1U, 5U, 30U}) {
      unsigned passes = 0;
      const Bracket at_once =
          search_thresholds<4>(all, values.size(), k, rounds, [&](auto thresholds, auto counts) {
            ++passes;
            count(thresholds, counts);
          });
      const Bracket alone = search_thresholds<1>(all, values.size(), k, rounds, count);
      CAPTURE(k, rounds);
      CHECK(at_once.high == alone.high);
      CHECK(at_once.low == alone.low);
      CHECK(at_once.above == alone.above);
      CHECK(at_once.all == alone.all);
      CHECK(passes <= (rounds + 3) / 4);
    }
  }
}

}  // namespace
}  // namespace phub::kernels::cuda
