#include "kernels/weight_gradient.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"

// A processor's bf16 product adds, in each lane, the products of two neighbouring elements. The sum
// runs over pixels, so these are two neighbouring pixels of a row:
//   output: [row][pair of pixels][channel][2], a vector is 16 output channels of a pair;
//   input:  [row][phase][channel][column], with the padding in it; a lane pair of tap s at output
//           pixel x is the columns x and x + 1 of phase s % stride, from s / stride on.
// A tile's sums stay in registers over all packed images: 3 taps of a kernel row, `kInputs` input
// and 16 * kVectors output channels, 24 vectors in all.
#if defined(__x86_64__)
#include <immintrin.h>

#define PHUB_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace phub::kernels {
namespace {

constexpr std::size_t kLanes = 16;  // fp32 of a vector
constexpr std::size_t kWidth = Convolution3x3::kWidth;
constexpr std::size_t kTransposed = 8;  // columns and channels that are transposed at once
constexpr std::size_t kMostWeights = 64 * 128 * kWidth * kWidth;
// Packed images of this many bytes stay in the second-level cache beside the sums.
constexpr std::size_t kPackedBytes = std::size_t{128} << 10U;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// The columns of an input row that lie in one phase of the padded row.
struct Phase {
  std::size_t first = 0;  // column
  std::size_t at = 0;     // where it is packed
  std::size_t count = 0;

  Phase(const Convolution3x3& shape, std::size_t phase) {
    const std::size_t behind = shape.padding % shape.stride;
    first = (phase + shape.stride - behind) % shape.stride;
    at = (first + shape.padding) / shape.stride;
    if (shape.input.width > first) count = divide_up(shape.input.width - first, shape.stride);
  }
};

// Columns of 8 channels from `rows`, `apart` elements from one to the next; of columns from `count`
// on, 0. Channel i goes to packed + i * stride.
PHUB_AVX512_BF16 void transpose(const std::uint16_t* rows, std::size_t apart, std::size_t count,
                                std::uint16_t* packed, std::size_t stride) {
  __m128i a[kTransposed], b[kTransposed];
  for (std::size_t i = 0; i < kTransposed; ++i) {
    a[i] = i < count ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + i * apart))
                     : _mm_setzero_si128();
  }
  for (std::size_t i = 0; i < kTransposed; i += 2) {
    b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
  }
  for (std::size_t i = 0; i < kTransposed; i += 4) {
    a[i] = _mm_unpacklo_epi32(b[i], b[i + 2]);
    a[i + 1] = _mm_unpackhi_epi32(b[i], b[i + 2]);
    a[i + 2] = _mm_unpacklo_epi32(b[i + 1], b[i + 3]);
    a[i + 3] = _mm_unpackhi_epi32(b[i + 1], b[i + 3]);
  }
  for (std::size_t i = 0; i < kTransposed / 2; ++i) {
    auto* const even = reinterpret_cast<__m128i*>(packed + 2 * i * stride);
    auto* const odd = reinterpret_cast<__m128i*>(packed + (2 * i + 1) * stride);
    _mm_storeu_si128(even, _mm_unpacklo_epi64(a[i], a[i + 4]));
    _mm_storeu_si128(odd, _mm_unpackhi_epi64(a[i], a[i + 4]));
  }
}

// Which of two vectors' elements: 0, 32, 1, 33, ..
constexpr auto kInterleaved = [] {
  std::array<std::uint16_t, 2 * kLanes> order = {};
  for (std::size_t i = 0; i < kLanes; ++i) {
    order[2 * i] = static_cast<std::uint16_t>(i);
    order[2 * i + 1] = static_cast<std::uint16_t>(2 * kLanes + i);
  }
  return order;
}();

// Pairs of two pixels' channels, [channel][2]; the second pixel may be null, which is 0.
PHUB_AVX512_BF16 void interleave(const std::uint16_t* first, const std::uint16_t* second,
                                 std::size_t channels, std::uint16_t* packed) {
  const __m512i order = _mm512_loadu_si512(kInterleaved.data());
  for (std::size_t c = 0; c < channels; c += kLanes) {
    const auto load = [c](const std::uint16_t* pixel) PHUB_AVX512_BF16 {
      return _mm512_castsi256_si512(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixel + c)));
    };
    const __m512i a = load(first);
    const __m512i b = second == nullptr ? _mm512_setzero_si512() : load(second);
    _mm512_storeu_si512(packed + 2 * c, _mm512_permutex2var_epi16(a, order, b));
  }
}

PHUB_AVX512_BF16 inline __m512bh both_columns(const std::uint16_t* columns) {
  int pair = 0;
  std::memcpy(&pair, columns, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

}  // namespace

bool has_weight_gradient(const Convolution3x3& shape) {
  const bool machine = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return machine && shape.input.channels % kLanes == 0 && shape.output.channels % kLanes == 0 &&
         shape.stride >= 1 && shape.weights() <= kMostWeights;
}

WeightGradientSums::Packing WeightGradientSums::packing_of(const Convolution3x3& shape) {
  Packing made;
  made.pairs = divide_up(shape.output.width, 2);
  made.stride = 2 * made.pairs + kWidth / shape.stride;
  for (std::size_t phase = 0; phase < shape.stride; ++phase) {
    const Phase columns(shape, phase);
    made.stride =
        std::max(made.stride, columns.at + divide_up(columns.count, kTransposed) * kTransposed);
  }
  made.stride = divide_up(made.stride, 2) * 2;
  made.input_elements = shape.input.height * shape.stride * shape.input.channels * made.stride;
  made.output_elements = shape.output.height * made.pairs * shape.output.channels * 2;
  const std::size_t bytes = (made.input_elements + made.output_elements) * sizeof(std::uint16_t);
  made.images = std::max<std::size_t>(1, kPackedBytes / bytes);
  return made;
}

WeightGradientSums::WeightGradientSums(const Convolution3x3& shape)
    : shape_(shape),
      packing_(packing_of(shape)),
      input_(packing_.images * packing_.input_elements),
      output_(divide_up(packing_.images * packing_.output_elements, kLineElements)),
      sums_(shape.weights()) {
  PHUB_CHECK(has_weight_gradient(shape), "has_weight_gradient tells which shapes there are");
}

void WeightGradientSums::reset() { std::fill(sums_.begin(), sums_.end(), 0.0F); }

// What is padding stays 0 from the beginning: columns are written where some are, and to the right
// of them.
void WeightGradientSums::pack_input(const std::uint16_t* input, std::uint16_t* packed) const {
  const auto& [height, width, channels] = shape_.input;
  const std::size_t apart = shape_.stride * channels;
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t phase = 0; phase < shape_.stride;
         ++phase, packed += channels * packing_.stride) {
      const Phase columns(shape_, phase);
      const std::uint16_t* from = input + (row * width + columns.first) * channels;
      for (std::size_t c = 0; c < channels; c += kTransposed) {
        std::uint16_t* to = packed + c * packing_.stride + columns.at;
        for (std::size_t i = 0; i < columns.count; i += kTransposed) {
          transpose(from + i * apart + c, apart, columns.count - i, to + i, packing_.stride);
        }
      }
    }
  }
}

void WeightGradientSums::pack_output(const std::uint16_t* gradient, std::uint16_t* packed) const {
  const auto& [height, width, channels] = shape_.output;
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t x = 0; x < width; x += 2) {
      const std::uint16_t* pixel = gradient + (row * width + x) * channels;
      interleave(pixel, x + 1 < width ? pixel + channels : nullptr, channels,
                 packed + (row * packing_.pairs + x / 2) * channels * 2);
    }
  }
}

struct WeightGradientSums::Tile {
  std::size_t images = 0;
  std::size_t kernel_row = 0;
  std::size_t input_channel = 0, output_channel = 0;
};

template <std::size_t kVectors, std::size_t kInputs>
PHUB_AVX512_BF16 void WeightGradientSums::add_tile(const Tile& tile, float* sums) const {
  constexpr std::size_t kOutputs = kVectors * kLanes;
  __m512 sum[kInputs][kWidth][kVectors];
  for (std::size_t c = 0; c < kInputs; ++c) {
    for (std::size_t s = 0; s < kWidth; ++s) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        sum[c][s][v] = _mm512_loadu_ps(sums + (c * kWidth * kWidth + s) * kOutputs + v * kLanes);
      }
    }
  }
  const std::size_t row_elements = shape_.stride * shape_.input.channels * packing_.stride;
  const std::size_t pair_elements = shape_.output.channels * 2;
  const std::size_t phase = shape_.input.channels * packing_.stride;
  std::size_t at[kWidth];
  for (std::size_t s = 0; s < kWidth; ++s) at[s] = s % shape_.stride * phase + s / shape_.stride;

  for (std::size_t image = 0; image < tile.images; ++image) {
    for (std::size_t y = 0; y < shape_.output.height; ++y) {
      const std::size_t row = y * shape_.stride + tile.kernel_row;  // of the padded input
      if (row < shape_.padding || row >= shape_.padding + shape_.input.height) continue;
      const std::uint16_t* in = input_.data() + image * packing_.input_elements +
                                (row - shape_.padding) * row_elements +
                                tile.input_channel * packing_.stride;
      const std::uint16_t* out = output() + image * packing_.output_elements +
                                 y * packing_.pairs * pair_elements + tile.output_channel * 2;
      for (std::size_t pair = 0; pair < packing_.pairs; ++pair, in += 2, out += pair_elements) {
        __m512bh gradient[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) {
          gradient[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(out + v * 2 * kLanes));
        }
#pragma GCC unroll 8
        for (std::size_t c = 0; c < kInputs; ++c) {
#pragma GCC unroll 3
          for (std::size_t s = 0; s < kWidth; ++s) {
            const __m512bh columns = both_columns(in + at[s] + c * packing_.stride);
#pragma GCC unroll 2
            for (std::size_t v = 0; v < kVectors; ++v) {
              sum[c][s][v] = _mm512_dpbf16_ps(sum[c][s][v], gradient[v], columns);
            }
          }
        }
      }
    }
  }
  for (std::size_t c = 0; c < kInputs; ++c) {
    for (std::size_t s = 0; s < kWidth; ++s) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        _mm512_storeu_ps(sums + (c * kWidth * kWidth + s) * kOutputs + v * kLanes, sum[c][s][v]);
      }
    }
  }
}

// The sums lie as [block of output channels][input channel][3][3][output channel].
template <std::size_t kVectors, std::size_t kInputs>
void WeightGradientSums::add_packed(std::size_t images) {
  constexpr std::size_t kOutputs = kVectors * kLanes;
  const std::size_t inputs = shape_.input.channels;
  for (std::size_t row = 0; row < kWidth; ++row) {
    for (std::size_t i = 0; i < inputs; i += kInputs) {
      for (std::size_t o = 0; o < shape_.output.channels; o += kOutputs) {
        const std::size_t at = ((o / kOutputs * inputs + i) * kWidth + row) * kWidth * kOutputs;
        add_tile<kVectors, kInputs>({images, row, i, o}, sums_.data() + at);
      }
    }
  }
}

void WeightGradientSums::add(std::size_t images, const std::uint16_t* input,
                             const std::uint16_t* output_gradient) {
  for (std::size_t first = 0; first < images; first += packing_.images) {
    const std::size_t count = std::min(packing_.images, images - first);
    for (std::size_t i = 0; i < count; ++i) {
      pack_input(input + (first + i) * shape_.input.elements(),
                 input_.data() + i * packing_.input_elements);
      pack_output(output_gradient + (first + i) * shape_.output.elements(),
                  output() + i * packing_.output_elements);
    }
    shape_.output.channels % (2 * kLanes) == 0 ? add_packed<2, 4>(count) : add_packed<1, 8>(count);
  }
}

void WeightGradientSums::write(std::span<const WeightGradientSums> parts, float* gradient) {
  const Convolution3x3& shape = parts[0].shape_;
  const std::size_t outputs = shape.output.channels % (2 * kLanes) == 0 ? 2 * kLanes : kLanes;
  const std::size_t of_output = shape.weights() / shape.output.channels;
  for (std::size_t block = 0, at = 0; block < shape.output.channels; block += outputs) {
    for (std::size_t i = 0; i < of_output; ++i, at += outputs) {
      for (std::size_t o = 0; o < outputs; ++o) {
        float sum = parts[0].sums_[at + o];
        for (const WeightGradientSums& part : parts.subspan(1)) sum += part.sums_[at + o];
        gradient[(block + o) * of_output + i] = sum;
      }
    }
  }
}

}  // namespace phub::kernels

#else

namespace phub::kernels {

bool has_weight_gradient(const Convolution3x3&) { return false; }

WeightGradientSums::WeightGradientSums(const Convolution3x3& shape) : shape_(shape) {
  PHUB_CHECK(false, "has_weight_gradient tells which shapes there are");
}
void WeightGradientSums::reset() {}
void WeightGradientSums::add(std::size_t, const std::uint16_t*, const std::uint16_t*) {}
void WeightGradientSums::write(std::span<const WeightGradientSums>, float*) {}

}  // namespace phub::kernels

#endif
