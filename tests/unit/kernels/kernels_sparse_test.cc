// Selectors against their specification, and what every selection is: exactly k, ascending.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/sparse.h"
#include "kernels/sparse_reference.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr Selector kSelectors[] = {Selector::kExact, Selector::kHistogram, Selector::kThresholds};

struct Selected {
  explicit Selected(std::size_t k) : indices(k + 1, kGuard), values(k + 1, -1.5F) {}
  Selection out() { return {indices.data(), values.data()}; }
  bool same_as(const Selected& other) const {
    return indices == other.indices &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0;
  }
  static constexpr std::uint32_t kGuard = 0xA5A5A5A5;
  std::vector<std::uint32_t> indices;  // one more, which nobody writes
  std::vector<float> values;
};

Selected select(Selector selector, std::span<const float> values, std::size_t k,
                const ThresholdOptions& options = {}) {
  Selected selected(k);
  std::vector<std::uint32_t> scratch(scratch_of(selector, values.size()));
  kernels::select(selector, values, k, selected.out(), scratch, options);
  return selected;
}

Selected specified(Selector selector, std::span<const float> values, std::size_t k,
                   const ThresholdOptions& options = {}) {
  Selected selected(k);
  if (selector == Selector::kThresholds) {
    reference::select_by_thresholds(values, k, selected.out(), options);
  } else {
    reference::select_largest(values, k, selected.out());
  }
  return selected;
}

bool is_selection_of(const Selected& selected, std::span<const float> values) {
  const std::size_t k = selected.indices.size() - 1;
  if (selected.indices[k] != Selected::kGuard) return false;
  for (std::size_t i = 0; i < k; ++i) {
    if (selected.indices[i] >= values.size()) return false;
    if (i > 0 && selected.indices[i] <= selected.indices[i - 1]) return false;
    if (std::bit_cast<std::uint32_t>(selected.values[i]) !=
        std::bit_cast<std::uint32_t>(values[selected.indices[i]])) {
      return false;
    }
  }
  return true;
}

std::vector<std::size_t> some_k(std::size_t elements) {
  std::vector<std::size_t> all = {0, elements};
  for (const std::size_t k : {std::size_t{1}, std::size_t{2}, elements / 100, elements / 3,
                              elements - std::min<std::size_t>(elements, 1)}) {
    if (k <= elements) all.push_back(k);
  }
  return all;
}

double energy(std::span<const float> values, std::size_t k) {
  double sum = 0.0;
  for (std::size_t i = 0; i < k; ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

TEST_CASE("every selector selects what its specification does, on every target") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(31);
    for (const std::size_t elements : kLengths) {
      for (const bool specials : {false, true}) {
        Array array = random_array(DataType::kFloat32, elements, random, specials);
        const std::span<const float> values(array.floats(), elements);
        for (const std::size_t k : some_k(elements)) {
          for (const Selector selector : kSelectors) {
            const ThresholdOptions options{.rounds = 5,
                                           .draw = static_cast<std::uint32_t>(random())};
            CAPTURE(target, elements, k, name_of(selector), specials);
            const Selected selected = select(selector, values, k, options);
            REQUIRE(is_selection_of(selected, values));
            REQUIRE(selected.same_as(specified(selector, values, k, options)));
          }
        }
      }
    }
  });
}

// Magnitudes that differ in their last digits only, or not at all.
TEST_CASE("exactly k are selected of what is all alike, all zero, subnormal or not finite") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> kinds = {{0.0F},
                                                 {0.0F, -0.0F},
                                                 {-3.0F},
                                                 {1e-45F, -3e-45F, 1e-40F},
                                                 {infinity, -infinity},
                                                 {std::nanf(""), 1.0F, -std::nanf("7")},
                                                 {1.0F, std::nextafter(1.0F, 2.0F)},
                                                 {3.4e38F, -3.4e38F, 1e-38F}};
  on_every_target([&](const std::string& target) {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      for (const std::size_t elements : {1U, 3U, 64U, 67U, 1000U}) {
        std::vector<float> values(elements);
        for (std::size_t i = 0; i < elements; ++i) values[i] = kinds[kind][i % kinds[kind].size()];
        for (const std::size_t k : some_k(elements)) {
          for (const Selector selector : kSelectors) {
            CAPTURE(target, kind, elements, k, name_of(selector));
            const Selected selected = select(selector, values, k, {.draw = 77});
            REQUIRE(is_selection_of(selected, values));
            REQUIRE(selected.same_as(specified(selector, values, k, {.draw = 77})));
          }
        }
      }
    }
  });
}

TEST_CASE("what is not finite is selected first, and of equal magnitudes the first ones") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1.0F, -5.0F, std::nanf(""), 5.0F, -infinity, 5.0F};
  for (const Selector selector : kSelectors) {
    CAPTURE(name_of(selector));
    const Selected selected = select(selector, values, 3);
    CHECK(selected.indices[0] == 1);
    CHECK(selected.indices[1] == 2);
    CHECK(selected.indices[2] == 4);
  }
}

TEST_CASE("mstopk keeps 0.999 of the energy of an exact selection") {
  std::mt19937 random(32);
  constexpr std::size_t kMany = 1 << 18;
  std::vector<float> values(kMany);
  for (const std::size_t layers : {1U, 16U}) {
    for (std::size_t i = 0; i < kMany; ++i) {
      const auto layer = static_cast<int>(i * layers / kMany);
      std::normal_distribution<float> normal(0.0F, std::ldexp(1.0F, -(layer % 7)));
      values[i] = normal(random);
    }
    for (const std::size_t k : {kMany / 1000, kMany / 100, kMany / 10}) {
      const Selected exact = select(Selector::kExact, values, k);
      const Selected near = select(Selector::kThresholds, values, k);
      CAPTURE(layers, k);
      CHECK(energy(near.values, k) >= 0.999 * energy(exact.values, k));
    }
  }
}

TEST_CASE("thresholds are counted as the specification counts, up to the most, on every target") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(33);
    for (const std::size_t elements : kLengths) {
      Array array = random_array(DataType::kFloat32, elements, random);
      const std::span<const float> values(array.floats(), elements);
      for (const std::size_t count : {std::size_t{1}, std::size_t{4}, kMaxThresholds}) {
        std::vector<float> thresholds(count);
        for (float& one : thresholds) {
          one = random() % 4 == 0 ? 0.0F : static_cast<float>(random() % 512) / 64.0F;
        }
        std::vector<std::uint64_t> counts(count);
        std::vector<std::uint64_t> expected(count);
        count_at_least(values, thresholds, counts);
        reference::count_at_least(values, thresholds, expected);
        CAPTURE(target, elements, count);
        REQUIRE(counts == expected);
      }
    }
  });
}

TEST_CASE("magnitudes are measured to the bits of the specification on every target") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(34);
    for (const std::size_t elements : kLengths) {
      Array array = random_array(DataType::kFloat32, elements, random, false);
      const Magnitudes own = measure_magnitudes({array.floats(), elements});
      const Magnitudes expected = reference::measure_magnitudes({array.floats(), elements});
      CAPTURE(target, elements);
      REQUIRE(std::bit_cast<std::uint64_t>(own.sum) == std::bit_cast<std::uint64_t>(expected.sum));
      REQUIRE(own.largest == expected.largest);
    }
  });
}

TEST_CASE("a selection of any type is added where its indices say, and nowhere else") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(35);
    for (const DataType type : kTypes) {
      for (const std::size_t count : {0U, 1U, 7U, 256U, 257U, 1000U}) {
        std::vector<std::uint32_t> indices(count);
        for (std::size_t i = 0; i < count; ++i) {
          indices[i] = static_cast<std::uint32_t>(3 * i + random() % 3);
        }
        const Array values = random_array(type, count, random);
        Array own = random_array(DataType::kFloat32, 3 * count + 1, random);
        Array expected = own;
        scatter_add(own.floats(), indices.data(), values.source(), count);
        reference::scatter_add(expected.floats(), indices.data(), values.source(), count);
        CAPTURE(target, name_of(type), count);
        REQUIRE(own.same_as(expected));
      }
    }
  });
}

}  // namespace
}  // namespace phub::kernels::test
