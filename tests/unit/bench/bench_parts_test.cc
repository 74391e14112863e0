// The pure parts of the bench: key sizes, patterns, order statistics.
#include <catch2/catch.hpp>
#include <numeric>

#include "bench/base/keys.h"
#include "bench/base/pattern.h"
#include "bench/base/statistics.h"

namespace phub::bench {
namespace {

std::uint64_t total(const std::vector<std::uint64_t>& keys) {
  return std::accumulate(keys.begin(), keys.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("ResNet-50 has 161 keys and 25,557,032 elements") {
  const std::vector<std::uint64_t> keys = resnet50_keys();
  CHECK(keys.size() == 161);
  CHECK(total(keys) == kResnet50Elements);
  CHECK(keys.front() == 64 * 3 * 7 * 7);
  CHECK(keys[keys.size() - 2] == 2048 * 1000);
  CHECK(keys.back() == 1000);
}

TEST_CASE("keys add up to the elements however they are cut") {
  for (const std::uint64_t elements : {161ULL, 162ULL, 5003ULL, 1'000'000ULL, 40'000'001ULL}) {
    for (const char* how : {"resnet50", "one", "auto", "7", "161"}) {
      const auto keys = make_keys(how, elements);
      REQUIRE(keys.has_value());
      CHECK(total(*keys) == elements);
      for (const std::uint64_t key : *keys) CHECK(key > 0);
    }
  }
  CHECK(make_keys("auto", 999'999)->size() == 1);
  CHECK(make_keys("auto", 1'000'000)->size() == 161);
}

TEST_CASE("words and numbers that cut no keys are refused") {
  for (const char* how : {"many", "0", "-1", "7x", ""}) {
    const auto keys = make_keys(how, 1000);
    REQUIRE_FALSE(keys.has_value());
    CHECK(keys.error().code() == Code::kInvalidArgument);
  }
  CHECK_FALSE(make_keys("resnet50", 160).has_value());
  CHECK_FALSE(make_keys("11", 10).has_value());
  CHECK_FALSE(make_keys("one", 0).has_value());
}

TEST_CASE("the pattern's sums fit the significand of every type") {
  for (const std::uint32_t workers : {1U, 2U, 3U, 8U, 64U}) {
    CHECK(workers * (pattern_modulus(DataType::kFloat32, workers) - 1) <= 1U << 24);
    CHECK(workers * (pattern_modulus(DataType::kFloat16, workers) - 1) <= 1U << 11);
    CHECK(workers * (pattern_modulus(DataType::kBfloat16, workers) - 1) <= 1U << 8);
    CHECK(pattern_modulus(DataType::kBfloat16, workers) >= 2);
  }
}

TEST_CASE("one wrong element of a sum is found") {
  const Pattern pattern{pattern_modulus(DataType::kFloat32, 3), 5};
  std::vector<float> sum(1000, 0.0F);
  std::vector<float> gradient(1000);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    fill_pattern(gradient, pattern, worker, 70);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  CHECK_FALSE(first_wrong_sum(sum, pattern, 3, 70).has_value());
  CHECK(first_wrong_sum(sum, Pattern{pattern.modulus, 6}, 3, 70).has_value());
  sum[654] += 1.0F;
  CHECK(first_wrong_sum(sum, pattern, 3, 70) == 724U);
}

TEST_CASE("the checksum does not depend on where the elements are cut, but on each of them") {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0F);
  const std::uint64_t whole = checksum(values, 0);
  const std::span<const float> all = values;
  CHECK(checksum(all.first(33), 0) + checksum(all.subspan(33), 33) == whole);
  std::swap(values[3], values[4]);
  CHECK(checksum(values, 0) != whole);
}

TEST_CASE("percentiles are values that were measured") {
  std::vector<double> values(100);
  std::iota(values.begin(), values.end(), 1.0);
  CHECK(percentile(values, 0.99) == 99.0);
  CHECK(percentile(values, 1.0) == 100.0);
  CHECK(percentile(values, 0.0) == 1.0);
  CHECK(percentile({}, 0.5) == 0.0);
  CHECK(median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(median({4.0, 1.0, 2.0, 3.0}) == 2.5);
}

TEST_CASE("a ratio is taken block by block, so that a drift of both cancels") {
  const Blocks slow = {{2.0, 2.0, 9.0}, {4.0}, {8.0}};
  const Blocks fast = {{1.0}, {2.0, 2.0}, {2.0}};
  const Spread spread = ratio(slow, fast);
  CHECK(spread.median == 2.0);
  CHECK(spread.min == 2.0);
  CHECK(spread.max == 4.0);
}

}  // namespace phub::bench
