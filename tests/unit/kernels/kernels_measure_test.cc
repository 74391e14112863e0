// Norms and the finite check against their specification, and the trust of rule lars.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/lars.h"
#include "kernels/reduce.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("a sum of squares has the bits of the specification on every target, at every length") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(20);
    for (const std::size_t elements : kLengths) {
      CAPTURE(target, elements);
      const Array values = random_array(DataType::kFloat32, elements, random, false);
      const auto* floats = reinterpret_cast<const float*>(values.data());
      REQUIRE(std::bit_cast<std::uint64_t>(sum_of_squares(floats, elements)) ==
              std::bit_cast<std::uint64_t>(reference::sum_of_squares(floats, elements)));
    }
  });
}

// Of numbers so far apart that each order of adding them rounds another way.
TEST_CASE("a sum of squares is added in the order of the specification") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(21);
    for (const std::size_t elements : kLengths) {
      CAPTURE(target, elements);
      std::vector<float> values(elements);
      for (float& value : values) {
        value = std::ldexp(1.0F + static_cast<float>(random() % 8'388'608) / 8'388'608.0F,
                           static_cast<int>(random() % 40));
      }
      REQUIRE(std::bit_cast<std::uint64_t>(sum_of_squares(values.data(), elements)) ==
              std::bit_cast<std::uint64_t>(reference::sum_of_squares(values.data(), elements)));
    }
  });
}

TEST_CASE("a sum of squares is right, and cannot overflow") {
  std::vector<float> values(8193, 3.0F);
  CHECK(sum_of_squares(values.data(), values.size()) == 9.0 * 8193);
  std::fill(values.begin(), values.end(), -std::numeric_limits<float>::max());
  CHECK(std::isfinite(sum_of_squares(values.data(), values.size())));
  CHECK(sum_of_squares(values.data(), 0) == 0.0);
}

TEST_CASE("one value that is not finite is found in any place of any type, on every target") {
  on_every_target([](const std::string& target) {
    for (const DataType type : kTypes) {
      for (const std::size_t elements : {1U, 5U, 16U, 33U, 70U}) {
        Array values(type, elements);
        for (std::size_t i = 0; i < elements; ++i) values.set(i, i % 2 == 0 ? 65504.0F : -1e-8F);
        CAPTURE(target, name_of(type), elements);
        REQUIRE(all_finite(values.source(), elements));
        for (std::size_t i = 0; i < elements; ++i) {
          for (const float wrong : {kInfinity, -kInfinity, std::nanf("")}) {
            Array changed = values;
            changed.set(i, wrong);
            REQUIRE_FALSE(all_finite(changed.source(), elements));
            REQUIRE_FALSE(reference::all_finite(changed.source(), elements));
            if (type != DataType::kFloat32) continue;
            REQUIRE_FALSE(std::isfinite(sum_of_squares(changed.floats(), elements)));
          }
        }
      }
    }
  });
  const Array none(DataType::kFloat16, 0);
  CHECK(all_finite(none.source(), 0));
}

TEST_CASE("trust is the paper's ratio of norms, and 1 where a norm is 0") {
  const LarsOptions options{.coefficient = 0.5F, .epsilon = 0.0F};
  // |w| = 4, |g| = 6 * 0.5 = 3: 0.5 * 4 / (3 + 0.25 * 4)
  CHECK(trust_of(options, {16.0, 36.0}, 0.5F, 0.25F) == 0.5F);
  CHECK(trust_of(options, {16.0, 36.0}, -0.5F, 0.25F) == 0.5F);
  CHECK(trust_of({.coefficient = 0.5F, .epsilon = 4.0F}, {16.0, 36.0}, 0.5F, 0.25F) == 0.25F);
  CHECK(trust_of(options, {0.0, 36.0}, 0.5F, 0.25F) == 1.0F);
  // Beyond fp32 it is fp32's largest, not infinity, which would count as an overflow.
  CHECK(trust_of({.coefficient = 1e30F}, {1e38, 1e-38}, 1.0F, 0.0F) ==
        std::numeric_limits<float>::max());
  CHECK(trust_of(options, {16.0, 0.0}, 0.5F, 0.25F) == 1.0F);
  for (const double wrong : {std::nan(""), static_cast<double>(kInfinity)}) {
    CHECK(std::isnan(trust_of(options, {16.0, wrong}, 0.5F, 0.25F)));
    CHECK(std::isnan(trust_of(options, {wrong, 16.0}, 0.5F, 0.25F)));
  }
}

}  // namespace
}  // namespace phub::kernels::test
