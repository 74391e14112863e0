// The weights' gradient of 3 x 3 convolutions against its definition in fp64.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/weight_gradient.h"
#include "tests/support/main/skipping_main.h"
#include "tests/unit/kernels/kernels_support.h"

namespace phub::kernels::test {
namespace {

struct Case {
  Convolution3x3 shape;
  std::size_t images;
};

Convolution3x3::Image image(std::size_t height, std::size_t width, std::size_t channels) {
  return {height, width, channels};
}

// What a convolution makes of the input's height or width.
std::size_t outputs(std::size_t inputs, std::size_t stride, std::size_t padding) {
  return (inputs + 2 * padding - Convolution3x3::kWidth) / stride + 1;
}

Case made(const Convolution3x3::Image& input, std::size_t channels, std::size_t stride,
          std::size_t padding, std::size_t images) {
  return {.shape = {.input = input,
                    .output = image(outputs(input.height, stride, padding),
                                    outputs(input.width, stride, padding), channels),
                    .stride = stride,
                    .padding = padding},
          .images = images};
}

// Odd and even widths, below and above what is packed at once, one and two vectors of channels.
const std::vector<Case> kCases = {
    made(image(32, 32, 16), 16, 1, 1, 3), made(image(16, 16, 32), 32, 1, 1, 5),
    made(image(8, 8, 64), 64, 1, 1, 9),   made(image(32, 32, 16), 32, 2, 1, 2),
    made(image(16, 16, 32), 64, 2, 1, 7), made(image(7, 9, 16), 48, 1, 1, 2),
    made(image(9, 7, 48), 16, 2, 1, 2),   made(image(1, 1, 16), 16, 1, 1, 2),
    made(image(3, 3, 16), 32, 1, 0, 1),   made(image(5, 4, 16), 16, 1, 2, 1),
    made(image(11, 10, 16), 16, 3, 1, 2), made(image(4, 5, 16), 16, 2, 3, 1),
    made(image(28, 28, 128), 64, 1, 1, 1)};

const std::uint16_t* bits(const Array& array) {
  return reinterpret_cast<const std::uint16_t*>(array.data());
}

// Element [o][i][r][s] of the gradient.
double exact(const Case& each, const Array& input, const Array& gradient, std::size_t element) {
  const Convolution3x3& shape = each.shape;
  const std::size_t s = element % 3, r = element / 3 % 3;
  const std::size_t i = element / 9 % shape.input.channels;
  const std::size_t o = element / 9 / shape.input.channels;
  double sum = 0.0;
  for (std::size_t image = 0; image < each.images; ++image) {
    for (std::size_t y = 0; y < shape.output.height; ++y) {
      for (std::size_t x = 0; x < shape.output.width; ++x) {
        const std::size_t row = y * shape.stride + r - shape.padding;  // wraps below 0
        const std::size_t column = x * shape.stride + s - shape.padding;
        if (row >= shape.input.height || column >= shape.input.width) continue;
        const std::size_t from = (image * shape.input.height + row) * shape.input.width + column;
        const std::size_t to = (image * shape.output.height + y) * shape.output.width + x;
        sum += double{input.value(from * shape.input.channels + i)} *
               double{gradient.value(to * shape.output.channels + o)};
      }
    }
  }
  return sum;
}

TEST_CASE("The gradient by the weights of a 3 x 3 convolution is its definition's") {
  std::mt19937 random(7);
  for (const Case& each : kCases) {
    const auto& [input_image, output_image, stride, padding] = each.shape;
    CAPTURE(input_image.height, input_image.width, input_image.channels, output_image.channels,
            stride, padding);
    REQUIRE(has_weight_gradient(each.shape));
    const Array input =
        random_array(DataType::kBfloat16, each.images * input_image.elements(), random, false);
    const Array gradient =
        random_array(DataType::kBfloat16, each.images * output_image.elements(), random, false);
    // Two parts, the second of which had other images before.
    std::vector<WeightGradientSums> parts(2, WeightGradientSums(each.shape));
    parts[1].add(each.images, bits(input), bits(gradient));
    parts[1].reset();
    const std::size_t first = each.images / 2;
    parts[0].add(first, bits(input), bits(gradient));
    parts[1].add(each.images - first, bits(input) + first * input_image.elements(),
                 bits(gradient) + first * output_image.elements());
    Array sums(DataType::kFloat32, each.shape.weights());
    WeightGradientSums::write(parts, sums.floats());

    // Of thousands of weights, some of each channel.
    const std::size_t step = each.shape.weights() > 5000 ? 7 : 1;
    double distance = 0.0, length = 0.0;
    for (std::size_t i = 0; i < each.shape.weights(); i += step) {
      const double wanted = exact(each, input, gradient, i);
      distance += std::pow(double{sums.floats()[i]} - wanted, 2);
      length += wanted * wanted;
    }
    CHECK(std::sqrt(distance) <= 1e-5 * std::sqrt(length));
    CHECK(sums.guards_intact());
  }
}

TEST_CASE("Shapes that oneDNN computes are left to it") {
  CHECK_FALSE(has_weight_gradient(made(image(8, 8, 24), 32, 1, 1, 1).shape));
  CHECK_FALSE(has_weight_gradient(made(image(8, 8, 32), 40, 1, 1, 1).shape));
  CHECK_FALSE(has_weight_gradient(made(image(8, 8, 128), 128, 1, 1, 1).shape));
}

}  // namespace
}  // namespace phub::kernels::test

std::string phub::testing::missing() {
  return kernels::has_weight_gradient(kernels::test::kCases[0].shape)
             ? ""
             : "this processor, or this build, has no AVX-512 BF16";
}
