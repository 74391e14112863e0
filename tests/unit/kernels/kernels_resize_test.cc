// The kernels on every instruction set that this machine has, against their specification.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/resize.h"
#include "kernels/resize_reference.h"
#include "tests/unit/kernels/targets.h"

namespace phub::kernels::test {
namespace {

const std::vector<std::size_t> kLengths = {0,  1,  2,  3,  5,  6,  7,  8,   9,   15,  16,  17,
                                           31, 32, 33, 63, 64, 65, 96, 223, 224, 672, 1001};

std::vector<std::uint8_t> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(count));
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::vector<std::uint16_t> random_weights(std::size_t count, std::uint32_t taps) {
  std::mt19937 random(taps);
  std::vector<std::uint16_t> weights(count);
  for (auto& weight : weights) weight = static_cast<std::uint16_t>(random() % (65536 / taps));
  return weights;
}

void check_columns(std::uint32_t outputs, std::uint32_t taps) {
  const std::uint32_t pixels = outputs + taps + 1;
  const auto row = random_bytes(4 * pixels + kRowSlackBytes);
  const std::uint32_t outputs_even = outputs + outputs % 2;
  std::vector<std::uint32_t> first(outputs_even, 0);
  for (std::uint32_t i = 0; i < outputs; ++i) first[i] = (i * 7) % (pixels - taps + 1);
  auto weights = random_weights(std::size_t{4} * outputs_even * taps, taps);
  // The channels of a pixel have one weight.
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = weights[i - i % 4];
  const Columns columns{
      .outputs = outputs, .taps = taps, .first = first.data(), .weights = weights.data()};
  std::vector<std::uint16_t> wanted(std::size_t{3} * outputs);
  reference::resample_colours(row.data(), columns, wanted.data());
  std::vector<std::uint16_t> out(wanted.size() + kRowSlackElements);
  resample_colours(row.data(), columns, out.data());
  out.resize(wanted.size());
  CAPTURE(outputs, taps);
  CHECK(out == wanted);
}

void check_rows(std::size_t elements, std::uint32_t taps) {
  std::vector<std::vector<std::uint16_t>> rows;
  std::vector<const std::uint16_t*> pointers;
  std::mt19937 random(3);
  for (std::uint32_t t = 0; t < taps; ++t) {
    rows.emplace_back(elements + kRowSlackElements);
    for (auto& value : rows.back()) value = static_cast<std::uint16_t>(random() % 65281);
  }
  for (const auto& row : rows) pointers.push_back(row.data());
  const auto weights = random_weights(taps, taps);
  std::vector<std::uint8_t> wanted(elements);
  reference::blend_rows(pointers.data(), weights.data(), taps, 3, {wanted.data(), elements});
  std::vector<std::uint8_t> out(elements + 1, 77);
  blend_rows(pointers.data(), weights.data(), taps, 3, {out.data(), elements});
  CAPTURE(elements, taps);
  CHECK(out.back() == 77);
  out.pop_back();
  CHECK(out == wanted);
}

void check_copy(std::size_t pixels) {
  const auto row = random_bytes(4 * pixels + kRowSlackBytes);
  std::vector<std::uint8_t> wanted(3 * pixels);
  reference::copy_colours(row.data(), pixels, wanted.data());
  std::vector<std::uint8_t> out(3 * pixels + 1, 77);
  copy_colours(row.data(), pixels, out.data());
  CHECK(out.back() == 77);
  out.pop_back();
  CHECK(out == wanted);
}

void check_spread(std::size_t pixels) {
  const auto row = random_bytes(3 * pixels);
  std::vector<std::uint8_t> wanted(4 * pixels);
  reference::spread_colours(row.data(), pixels, wanted.data());
  std::vector<std::uint8_t> out(4 * pixels + 1, 77);
  spread_colours(row.data(), pixels, out.data());
  CHECK(out.back() == 77);
  out.pop_back();
  CHECK(out == wanted);
}

TEST_CASE("every instruction set resizes as the specification does") {
  for (const std::string_view target : supported_targets()) {
    REQUIRE(select_target(target));
    INFO(target);
    for (const std::size_t length : kLengths) {
      check_copy(length);
      check_spread(length);
      for (const std::uint32_t taps : {1U, 2U, 3U, 4U, 5U, 17U}) check_rows(length, taps);
      if (length == 0) continue;
      for (const std::uint32_t taps : {2U, 4U, 8U, 12U, 32U}) {
        check_columns(static_cast<std::uint32_t>(length), taps);
      }
    }
  }
  select_target("");
}

}  // namespace
}  // namespace phub::kernels::test
