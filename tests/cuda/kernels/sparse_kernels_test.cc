// The count of magnitudes against its specification, on a GPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/cuda/training_kernels.h"
#include "kernels/cuda/training_reference.h"
#include "tests/cuda/kernels/mirrored.h"

namespace phub::kernels::cuda {
namespace {

using phub::testing::Mirrored;
using phub::testing::run_both;
using phub::testing::Side;

TEST_CASE("Magnitudes are counted as specified, for any number of thresholds") {
  const auto elements = GENERATE(0, 1, 255, 257, 1'000'003);
  const auto thresholds = GENERATE(1, 4, kCountedThresholds);
  std::mt19937 random(61);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> array(static_cast<std::size_t>(elements) + 1);  // none is no array to map
  for (float& value : array) value = random() % 64 == 0 ? NAN : normal(random);
  Mirrored<float> values(array);
  Mirrored<unsigned long long> counts(std::vector<unsigned long long>(kCountedThresholds, 3));
  run_both([&](Side side) {
    CountMagnitudes arguments{.values = values.at(side),
                              .elements = elements,
                              .thresholds = {},
                              .threshold_count = thresholds,
                              .counts = counts.at(side)};
    for (int t = 0; t < thresholds; ++t) {
      arguments.thresholds[t] = static_cast<float>(t) / 3.0F;
    }
    return arguments;
  });
  CHECK(counts.download() == counts.host());
}

}  // namespace
}  // namespace phub::kernels::cuda
