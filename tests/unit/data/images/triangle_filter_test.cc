#include "worker/data/images/triangle_filter.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace phub::data::test {
namespace {

TEST_CASE("the weights of an output sum to one, within the pixels that the interval touches") {
  TriangleFilter filter;
  for (const Interval from : {Interval{0, 256}, Interval{3.25, 100.5}, Interval{9.9, 0.3},
                              Interval{0, 1000}, Interval{17, 1}}) {
    for (const std::uint32_t outputs : {1U, 2U, 7U, 224U, 1000U}) {
      filter.assign(from, 1000, outputs);
      CAPTURE(from.begin, from.length, outputs);
      REQUIRE(filter.outputs() == outputs);
      for (std::uint32_t i = 0; i < outputs; ++i) {
        std::uint32_t sum = 0;
        for (std::uint32_t t = 0; t < filter.taps(); ++t) sum += filter.weights(i)[t];
        const bool is_one = sum == kWeightOne || sum == kWeightOne - 1;
        const bool is_within =
            filter.first(i) >= static_cast<std::uint32_t>(from.begin) &&
            filter.first(i) + filter.taps() <= std::ceil(from.begin + from.length);
        if (!is_one || !is_within) FAIL("output " << i);
      }
    }
  }
}

}  // namespace
}  // namespace phub::data::test
