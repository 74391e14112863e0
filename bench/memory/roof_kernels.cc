// Plain loops for the compiler to vectorize (this file is built with -O3). Sources beyond the
// unrolled counts are added block by block, with the running sum in the first-level cache.
#include <algorithm>
#include <array>

#include "bench/memory/roof.h"

namespace phub::bench {
namespace {

constexpr std::size_t kBlock = 2048;  // elements: 8 KiB of running sum

template <unsigned kCount>
void sum_of(float* __restrict out, const float* const* sources, std::size_t first,
            std::size_t elements) {
  std::array<const float*, kCount> source{};
  for (unsigned k = 0; k < kCount; ++k) source[k] = sources[k] + first;
  for (std::size_t i = 0; i < elements; ++i) {
    float sum = source[0][i];
    for (unsigned k = 1; k < kCount; ++k) sum += source[k][i];
    out[i] = sum;
  }
}

void sum_block(float* __restrict out, const float* const* sources, unsigned count,
               std::size_t first, std::size_t elements) {
  constexpr std::array kSums = {sum_of<1>, sum_of<2>, sum_of<3>, sum_of<4>,
                                sum_of<5>, sum_of<6>, sum_of<7>, sum_of<8>};
  kSums[std::min<std::size_t>(count, kSums.size()) - 1](out, sources, first, elements);
  for (unsigned k = kSums.size(); k < count; ++k) {
    const float* source = sources[k] + first;
    for (std::size_t i = 0; i < elements; ++i) out[i] += source[i];
  }
}

}  // namespace

void roof_sum(float* out, const float* const* sources, unsigned count, std::size_t elements) {
  for (std::size_t first = 0; first < elements; first += kBlock) {
    sum_block(out + first, sources, count, first, std::min(kBlock, elements - first));
  }
}

void roof_update(float* parameters, float* state, const float* const* sources, unsigned count,
                 std::size_t elements) {
  constexpr float kMomentum = 0.9F;
  constexpr float kRate = 0.01F;
  std::array<float, kBlock> gradient;
  for (std::size_t first = 0; first < elements; first += kBlock) {
    const std::size_t length = std::min(kBlock, elements - first);
    sum_block(gradient.data(), sources, count, first, length);
    float* __restrict w = parameters + first;
    float* __restrict v = state + first;
    for (std::size_t i = 0; i < length; ++i) {
      v[i] = kMomentum * v[i] + gradient[i];
      w[i] -= kRate * (gradient[i] + kMomentum * v[i]);
    }
  }
}

void roof_moments(float* parameters, float* means, float* squares, const float* const* sources,
                  unsigned count, std::size_t elements) {
  std::array<float, kBlock> gradient;
  for (std::size_t first = 0; first < elements; first += kBlock) {
    const std::size_t length = std::min(kBlock, elements - first);
    sum_block(gradient.data(), sources, count, first, length);
    float* __restrict w = parameters + first;
    float* __restrict m = means + first;
    float* __restrict v = squares + first;
    for (std::size_t i = 0; i < length; ++i) {
      m[i] = 0.9F * m[i] + 0.1F * gradient[i];
      v[i] = 0.999F * v[i] + 0.001F * gradient[i] * gradient[i];
      w[i] -= 0.01F * m[i];
    }
  }
}

void roof_copy(float* __restrict out, const float* __restrict source, std::size_t elements) {
  // Not memcpy, whose streaming stores move one stream less.
  for (std::size_t i = 0; i < elements; ++i) out[i] = source[i] + 0.0F;
}

void roof_triad(float* __restrict out, const float* __restrict first,
                const float* __restrict second, std::size_t elements) {
  constexpr float kFactor = 3.0F;
  for (std::size_t i = 0; i < elements; ++i) out[i] = first[i] + kFactor * second[i];
}

}  // namespace phub::bench
