#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

// Where two arrays differ first; their length if nowhere. (Catch would print them whole.)
template <typename T>
std::size_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

// Every sign and exponent with mantissas around every rounding decision, and NaNs of all kinds.
std::vector<float> critical_floats() {
  std::vector<float> values;
  std::vector<std::uint32_t> mantissas = {0x7FFFFF, 0x7FF000, 0x7FE000, 0x7FEFFF, 0x7FF001};
  for (std::uint32_t bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t around : {0U, 1U, 0xFFFFFFU}) {
      mantissas.push_back(((1U << bit) + around) & 0x7FFFFFU);
      mantissas.push_back(((3U << bit) + around) & 0x7FFFFFU);
    }
  }
  for (std::uint32_t top = 0; top < 512; ++top) {
    for (const std::uint32_t mantissa : mantissas) {
      values.push_back(std::bit_cast<float>((top << 23) | mantissa));
    }
  }
  return values;
}

TEST_CASE("rounding to 16 bits equals the specification bit for bit, NaNs included") {
  std::vector<float> values = critical_floats();
  std::mt19937 random(8);
  for (int i = 0; i < 1'000'000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  std::vector<std::uint16_t> expected(values.size());
  reference::convert(bytes(expected.data()), type, bytes(values.data()), DataType::kFloat32,
                     values.size());
  on_every_target([&](const std::string& target) {
    CAPTURE(target, name_of(type));
    std::vector<std::uint16_t> actual(values.size());
    convert(bytes(actual.data()), type, bytes(values.data()), DataType::kFloat32, values.size());
    REQUIRE(first_difference(actual, expected) == expected.size());
  });
}

TEST_CASE("all 65,536 values of 16 bits widen as specified and round back to themselves") {
  const DataType type = GENERATE(DataType::kFloat16, DataType::kBfloat16);
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint32_t> expected(all.size());
  reference::convert(bytes(expected.data()), DataType::kFloat32, bytes(all.data()), type,
                     all.size());
  on_every_target([&](const std::string& target) {
    CAPTURE(target, name_of(type));
    std::vector<std::uint32_t> widened(all.size());
    convert(bytes(widened.data()), DataType::kFloat32, bytes(all.data()), type, all.size());
    REQUIRE(first_difference(widened, expected) == expected.size());
    std::vector<std::uint16_t> back(all.size());
    convert(bytes(back.data()), type, bytes(widened.data()), DataType::kFloat32, all.size());
    const std::uint16_t quiet = type == DataType::kFloat16 ? 0x0200 : 0x0040;
    bool same = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_nan = std::isnan(std::bit_cast<float>(widened[i]));
      same &= back[i] == (is_nan ? (all[i] | quiet) : all[i]);
    }
    REQUIRE(same);
  });
}

TEST_CASE("conversions between all types at all lengths equal the specification") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(9);
    for (const DataType from : kTypes) {
      for (const DataType to : kTypes) {
        for (const std::size_t elements : kLengths) {
          CAPTURE(target, name_of(from), name_of(to), elements);
          const Array source = random_array(from, elements, random);
          Array actual(to, elements);
          Array expected(to, elements);
          convert(actual.data(), to, source.data(), from, elements);
          reference::convert(expected.data(), to, source.data(), from, elements);
          REQUIRE(actual.same_as(expected));
        }
      }
    }
  });
}

TEST_CASE("the specification rounds half precision as IEEE 754 says") {
  using reference::float16_from_float;
  CHECK(float16_from_float(1.0F) == 0x3C00);
  CHECK(float16_from_float(-2.0F) == 0xC000);
  CHECK(float16_from_float(65504.0F) == 0x7BFF);
  CHECK(float16_from_float(65519.996F) == 0x7BFF);
  CHECK(float16_from_float(65520.0F) == 0x7C00);               // halfway: to even, infinity
  CHECK(float16_from_float(1.0F + 1.0F / 2048) == 0x3C00);     // tie to even, down
  CHECK(float16_from_float(1.0F + 3.0F / 2048) == 0x3C02);     // tie to even, up
  CHECK(float16_from_float(std::ldexp(1.0F, -14)) == 0x0400);  // least normal
  CHECK(float16_from_float(std::ldexp(1.0F, -24)) == 0x0001);  // least subnormal
  CHECK(float16_from_float(std::ldexp(1.0F, -25)) == 0x0000);  // half of it: to even
  CHECK(float16_from_float(std::ldexp(1.5F, -25)) == 0x0001);
  CHECK(float16_from_float(std::ldexp(2047.0F, -25)) == 0x0400);  // rounds up to a normal
  CHECK(float16_from_float(-0.0F) == 0x8000);
  CHECK(float16_from_float(-INFINITY) == 0xFC00);
  CHECK(std::isnan(reference::float_from_float16(float16_from_float(NAN))));
  CHECK(reference::float_from_float16(0x0001) == std::ldexp(1.0F, -24));
  CHECK(reference::float_from_float16(0x83FF) == std::ldexp(-1023.0F, -24));
  CHECK(reference::float_from_float16(0x7BFF) == 65504.0F);
}

TEST_CASE("the specification rounds bfloat16 to nearest even") {
  using reference::bfloat16_from_float;
  CHECK(bfloat16_from_float(1.0F) == 0x3F80);
  CHECK(bfloat16_from_float(std::bit_cast<float>(0x3F808000U)) == 0x3F80);  // tie to even, down
  CHECK(bfloat16_from_float(std::bit_cast<float>(0x3F818000U)) == 0x3F82);  // tie to even, up
  CHECK(bfloat16_from_float(std::bit_cast<float>(0x3F808001U)) == 0x3F81);
  CHECK(bfloat16_from_float(3.4e38F) == 0x7F80);                            // to infinity
  CHECK(bfloat16_from_float(std::bit_cast<float>(0x7F800001U)) == 0x7FC0);  // NaN stays NaN
  CHECK(bfloat16_from_float(std::bit_cast<float>(0xFFFFFFFFU)) == 0xFFFF);
}

}  // namespace
}  // namespace phub::kernels::test
