// The gradient by the weights of a 3 x 3 convolution in bf16, on CPUs with AVX-512 BF16: for the
// 16 to 128 channels of small networks, where oneDNN's kernels leave a quarter of the machine
// unused.
//
//   gradient[o][i][r][s] = sum over images and output pixels (y, x) of
//       output_gradient[y][x][o] * input[y * stride + r - padding][x * stride + s - padding][i]
//
// with 0 for pixels outside of the input. Products of two bf16 are exact, sums are fp32, and
// subnormal numbers count as 0, as in all of the processor's bf16 products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phub::kernels {

// Images are stored as NHWC. Padding is that of the upper and the left side; what an output pixel
// reads beyond the lower and the right one is 0 as well.
struct Convolution3x3 {
  struct Image {
    std::size_t height = 0, width = 0, channels = 0;

    std::size_t elements() const { return height * width * channels; }
  };
  Image input, output;
  std::size_t stride = 1;
  std::size_t padding = 1;

  static constexpr std::size_t kWidth = 3;
  std::size_t weights() const { return output.channels * input.channels * kWidth * kWidth; }
};

// Whether this machine and this build have the kernel, which needs multiples of 16 channels. It is
// the faster one up to 64 x 128 channels; with more, its sums leave the second-level cache.
bool has_weight_gradient(const Convolution3x3& shape);

// Sums over some of a batch's images. A thread has its own; used by one thread at a time.
class WeightGradientSums {
 public:
  // REQUIRES: has_weight_gradient(shape).
  explicit WeightGradientSums(const Convolution3x3& shape);

  void reset();
  // Adds `images` images' gradients: bf16 [images][height][width][channels] each. Allocates
  // nothing.
  void add(std::size_t images, const std::uint16_t* input, const std::uint16_t* output_gradient);

  // gradient [output channel][input channel][3][3] = the sum of all parts, which are of one shape,
  // in their order. REQUIRES: at least one part; shape.weights() elements.
  static void write(std::span<const WeightGradientSums> parts, float* gradient);

 private:
  // How the packed images lie: see the source.
  struct Packing {
    std::size_t pairs = 0;   // of neighbouring output pixels in a row, the last filled up by 0
    std::size_t stride = 0;  // elements from one channel's row to the next one's
    std::size_t input_elements = 0, output_elements = 0;  // of an image
    std::size_t images = 1;                               // packed at a time
  };
  struct Tile;
  static constexpr std::size_t kLineElements = 32;
  struct alignas(64) Line {
    std::uint16_t elements[kLineElements];
  };

  static Packing packing_of(const Convolution3x3& shape);
  void pack_input(const std::uint16_t* input, std::uint16_t* packed) const;
  void pack_output(const std::uint16_t* gradient, std::uint16_t* packed) const;
  template <std::size_t kVectors, std::size_t kInputs>
  void add_tile(const Tile& tile, float* sums) const;
  template <std::size_t kVectors, std::size_t kInputs>
  void add_packed(std::size_t images);

  std::uint16_t* output() { return output_.data()->elements; }
  const std::uint16_t* output() const { return output_.data()->elements; }

  Convolution3x3 shape_;
  Packing packing_;
  std::vector<std::uint16_t> input_;  // of images, packed
  std::vector<Line> output_;          // the same; whole vectors are read, so they are aligned
  std::vector<float> sums_;
};

}  // namespace phub::kernels
