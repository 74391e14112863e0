// The passes over activations against their scalar specification, bit for bit, and what batch
// normalisation's sums are worth against fp64.
#include <catch2/catch.hpp>
#include <functional>

#include "kernels/activations.h"
#include "kernels/activations_reference.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

constexpr DataType kStored[] = {DataType::kFloat32, DataType::kBfloat16};
// Below, at and above the vectors' lengths, and what their remainders are made of.
constexpr std::size_t kChannels[] = {1, 3, 6, 8, 16, 17, 31, 64};
// Around a part, and around a tile.
constexpr std::size_t kPixels[] = {0, 1, 3, 4, 5, 63, 256, 257, 519};

struct ActivationCase {
  DataType type;
  std::size_t pixels, channels;

  Pixels shape() const { return {pixels, channels, type}; }
  std::size_t elements() const { return pixels * channels; }
};

// One value for each channel, around 0 or positive.
std::vector<float> channel_values(std::size_t channels, std::mt19937& random, float least) {
  std::vector<float> values(channels);
  for (float& value : values) {
    value = least + 2.0F * static_cast<float>(random() >> 8U) * 0x1p-24F;
  }
  return values;
}

void for_each_case(const std::function<void(const ActivationCase&, std::mt19937&)>& body) {
  on_every_target([&](const std::string& target) {
    std::mt19937 random(3);
    for (const DataType type : kStored) {
      for (const std::size_t channels : kChannels) {
        for (const std::size_t pixels : kPixels) {
          CAPTURE(target, name_of(type), channels, pixels);
          body({type, pixels, channels}, random);
        }
      }
    }
  });
}

// NaN where the other is, else the same bits.
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) return false;
  }
  return true;
}

// What belongs to the channels of a normalisation, at random.
struct RandomScale {
  RandomScale(std::size_t channels, std::mt19937& random)
      : mean(channel_values(channels, random, -1.0F)),
        factor(channel_values(channels, random, -0.5F)),
        shift(channel_values(channels, random, -1.0F)) {}
  ChannelScale view() const { return {mean.data(), factor.data(), shift.data()}; }

  std::vector<float> mean, factor, shift;
};

TEST_CASE("channel sums equal the specification for every target, type, width and length") {
  for_each_case([](const ActivationCase& c, std::mt19937& random) {
    const Array input = random_array(c.type, c.elements(), random, c.pixels == 63);
    const std::vector<float> about = channel_values(c.channels, random, -1.0F);
    std::vector<double> sums(c.channels, 0.5), squares(c.channels, 0.25);
    std::vector<double> expected_sums = sums, expected_squares = squares;
    add_channel_sums({c.shape(), input.data(), about.data(), sums.data(), squares.data()});
    reference::add_channel_sums(
        {c.shape(), input.data(), about.data(), expected_sums.data(), expected_squares.data()});
    REQUIRE(same_bits(sums, expected_sums));
    REQUIRE(same_bits(squares, expected_squares));
    REQUIRE(input.guards_intact());
  });
}

TEST_CASE("normalising equals the specification, with and without a residual, in place too") {
  for_each_case([](const ActivationCase& c, std::mt19937& random) {
    const Array input = random_array(c.type, c.elements(), random);
    const Array residual = random_array(c.type, c.elements(), random);
    const RandomScale scale(c.channels, random);
    for (const bool relu : {false, true}) {
      for (const bool adds : {false, true}) {
        CAPTURE(relu, adds);
        Array output(c.type, c.elements()), expected(c.type, c.elements());
        Normalise arguments{.shape = c.shape(),
                            .input = input.data(),
                            .residual = adds ? residual.data() : nullptr,
                            .output = expected.data(),
                            .scale = scale.view(),
                            .relu = relu};
        reference::normalise(arguments);
        arguments.output = output.data();
        normalise(arguments);
        REQUIRE(output.same_as(expected));
        Array in_place = input;
        arguments.input = arguments.output = in_place.data();
        normalise(arguments);
        REQUIRE(in_place.same_as(expected));
      }
    }
  });
}

TEST_CASE("a normalisation's gradients equal the specification for each kind of mask") {
  for_each_case([](const ActivationCase& c, std::mt19937& random) {
    const Array input = random_array(c.type, c.elements(), random, false);
    const Array gradient = random_array(c.type, c.elements(), random, false);
    const Array mask = random_array(c.type, c.elements(), random);
    const RandomScale scale(c.channels, random), line(c.channels, random);
    for (const int kind : {0, 1, 2}) {
      CAPTURE(kind);
      const NormaliseGradient arguments{.shape = c.shape(),
                                        .input = input.data(),
                                        .output_gradient = gradient.data(),
                                        .mask = kind == 2 ? mask.data() : nullptr,
                                        .scale = scale.view(),
                                        .relu = kind == 1};
      std::vector<double> sums(c.channels), products(c.channels);
      std::vector<double> expected_sums = sums, expected_products = products;
      Array masked(c.type, c.elements()), expected_masked(c.type, c.elements());
      add_gradient_sums(arguments, sums.data(), products.data(), masked.data());
      reference::add_gradient_sums(arguments, expected_sums.data(), expected_products.data(),
                                   expected_masked.data());
      REQUIRE(same_bits(sums, expected_sums));
      REQUIRE(same_bits(products, expected_products));
      REQUIRE(masked.same_as(expected_masked));
      const GradientLine slope{line.mean.data(), line.shift.data()};
      Array output(c.type, c.elements()), expected(c.type, c.elements());
      normalise_backward(arguments, slope, output.data());
      reference::normalise_backward(arguments, slope, expected.data());
      REQUIRE(output.same_as(expected));
    }
  });
}

TEST_CASE("sums and masks of activations equal the specification, in place too") {
  on_every_target([](const std::string& target) {
    std::mt19937 random(5);
    for (const DataType type : kStored) {
      for (const std::size_t elements : kLengths) {
        for (const bool flag : {false, true}) {
          CAPTURE(target, name_of(type), elements, flag);
          Array first = random_array(type, elements, random);
          const Array second = random_array(type, elements, random);
          Array out(type, elements), expected(type, elements), other(type, elements);
          reference::add_activations(
              {elements, type, first.data(), second.data(), expected.data(), flag});
          add_activations({elements, type, first.data(), second.data(), out.data(), flag});
          REQUIRE(out.same_as(expected));
          MaskGradient mask{elements, type, second.data(), first.data(), expected.data(), nullptr};
          reference::mask_gradient(mask);
          mask.first = out.data();
          mask.second = flag ? other.data() : nullptr;
          mask_gradient(mask);
          REQUIRE(out.same_as(expected));
          if (flag) REQUIRE(other.same_as(expected));
          mask.first = first.data();  // over the gradient itself
          mask_gradient(mask);
          REQUIRE(first.same_as(expected));
        }
      }
    }
  });
}

TEST_CASE("a ReLU lets a NaN through, and its gradient is 0 where the output is not above 0") {
  const float values[] = {NAN, -1.0F, 0.0F, 2.0F};
  const float zeros[4] = {};
  const float gradient[] = {1.0F, 1.0F, 1.0F, 1.0F};
  float out[4] = {};
  const auto raw = [](auto* floats) { return reinterpret_cast<const std::byte*>(floats); };
  auto* const to = reinterpret_cast<std::byte*>(out);
  add_activations({4, DataType::kFloat32, raw(values), raw(zeros), to, true});
  REQUIRE(std::isnan(out[0]));
  REQUIRE(std::vector<float>(out + 1, out + 4) == std::vector<float>{0.0F, 0.0F, 2.0F});
  mask_gradient({4, DataType::kFloat32, raw(values), raw(gradient), to, nullptr});
  REQUIRE(std::vector<float>(out, out + 4) == std::vector<float>{0.0F, 0.0F, 0.0F, 1.0F});
}

TEST_CASE("a variance about a sample keeps its digits far from zero") {
  constexpr std::size_t kCount = 65'536;
  std::mt19937 random(9);
  std::normal_distribution<double> normal(1e4, 1.0);
  Array input(DataType::kFloat32, kCount);
  double mean = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    input.set(i, static_cast<float>(normal(random)));
    mean += double{input.value(i)} / kCount;
  }
  double variance = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    variance += (double{input.value(i)} - mean) * (double{input.value(i)} - mean) / kCount;
  }
  const float about = input.value(17);
  double sum = 0.0, squares = 0.0;
  add_channel_sums({{kCount, 1, DataType::kFloat32}, input.data(), &about, &sum, &squares});
  const double beyond = sum / kCount;
  REQUIRE(double{about} + beyond == Approx(mean).epsilon(1e-10));
  REQUIRE(squares / kCount - beyond * beyond == Approx(variance).epsilon(2e-6));
}

}  // namespace
}  // namespace phub::kernels::test
