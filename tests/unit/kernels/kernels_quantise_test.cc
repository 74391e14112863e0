// Arrays in 8 and 4 bits against their specification, and how near they are.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/quantise.h"
#include "kernels/quantise_reference.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr Bits kBits[] = {Bits::kEight, Bits::kFour};

std::vector<std::byte> quantised(std::span<const float> values, Bits bits) {
  std::vector<std::byte> bytes(quantised_bytes(values.size(), bits) + 1, std::byte{0xA5});
  quantise(bytes.data(), values, bits);
  CHECK(bytes.back() == std::byte{0xA5});
  return bytes;
}

TEST_CASE("8 and 4 bits have the bits of the specification on every target, at every length") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(51);
    for (const std::size_t elements : kLengths) {
      for (const Bits bits : kBits) {
        for (const bool specials : {false, true}) {
          CAPTURE(target, elements, static_cast<int>(bits), specials);
          Array array = random_array(DataType::kFloat32, elements, random, specials);
          const std::span<const float> values(array.floats(), elements);
          const auto own = quantised(values, bits);
          std::vector<std::byte> expected(own.size(), std::byte{0xA5});
          reference::quantise(expected.data(), values, bits);
          REQUIRE(own == expected);
          Array sum = random_array(DataType::kFloat32, elements, random, false);
          Array specified = sum;
          add_quantised({sum.floats(), elements}, own.data(), bits);
          reference::add_quantised({specified.floats(), elements}, own.data(), bits);
          REQUIRE(sum.same_as(specified));
        }
      }
    }
  });
}

TEST_CASE("an element is within half a step of what it was, and the largest of a block is exact") {
  std::mt19937 random(52);
  Array array = random_array(DataType::kFloat32, 1000, random, false);
  const std::span<const float> values(array.floats(), 1000);
  for (const Bits bits : kBits) {
    const auto bytes = quantised(values, bits);
    std::vector<float> read(1000, 0.0F);
    add_quantised(read, bytes.data(), bits);
    const float most = bits == Bits::kEight ? 127.0F : 7.0F;
    for (std::size_t begin = 0; begin < 1000; begin += kQuantisedBlock) {
      const std::size_t end = std::min<std::size_t>(1000, begin + kQuantisedBlock);
      float largest = 0.0F;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
      for (std::size_t i = begin; i < end; ++i) {
        REQUIRE(std::abs(read[i] - values[i]) <= 0.5001F * largest / most);
      }
    }
  }
}

TEST_CASE("zeros and what is nearly nothing become zeros, what is not finite makes its block NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  on_every_target([&](const std::string& target) {
    for (const Bits bits : kBits) {
      for (const float wrong : {infinity, -infinity, std::nanf("")}) {
        CAPTURE(target, static_cast<int>(bits), wrong);
        std::vector<float> values(130, 0.0F);
        values[3] = 1e-38F;
        values[70] = wrong;
        values[129] = 3.4e38F;
        const auto bytes = quantised(values, bits);
        std::vector<float> read(values.size(), 0.0F);
        add_quantised(read, bytes.data(), bits);
        for (std::size_t i = 0; i < 64; ++i) REQUIRE(read[i] == 0.0F);
        for (std::size_t i = 64; i < 128; ++i) REQUIRE(std::isnan(read[i]));
        REQUIRE(std::isfinite(read[129]));
        REQUIRE(read[129] > 3.3e38F);
      }
    }
  });
}

}  // namespace
}  // namespace phub::kernels::test
