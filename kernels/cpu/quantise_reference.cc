#include "kernels/quantise_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace phub::kernels::reference {
namespace {

struct Block {
  float scale = 0.0F;
  int q[kQuantisedBlock] = {};
};

Block quantised(std::span<const float> values, int most) {
  Block block;
  float largest = 0.0F;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      block.scale = std::numeric_limits<float>::quiet_NaN();
      return block;
    }
    largest = std::max(largest, std::abs(value));
  }
  if (largest < 0x1p-100F) return block;
  const float up = static_cast<float>(most) / largest;
  block.scale = largest * (1.0F / static_cast<float>(most));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scaled = values[i] * up;
    block.q[i] = std::clamp(static_cast<int>(std::nearbyint(scaled)), -most, most);
  }
  return block;
}

}  // namespace

void quantise(std::byte* out, std::span<const float> values, Bits bits) {
  for (std::size_t begin = 0; begin < values.size(); begin += kQuantisedBlock) {
    const std::size_t count = std::min(kQuantisedBlock, values.size() - begin);
    const Block block = quantised(values.subspan(begin, count), bits == Bits::kEight ? 127 : 7);
    std::memcpy(out, &block.scale, sizeof(float));
    std::byte* const elements = out + sizeof(float);
    for (std::size_t i = 0; i < kQuantisedBlock; ++i) {
      if (bits == Bits::kEight) {
        elements[i] = static_cast<std::byte>(block.q[i]);
      } else if (i < kQuantisedBlock / 2) {
        elements[i] = static_cast<std::byte>((block.q[i] + 8) |
                                             ((block.q[i + kQuantisedBlock / 2] + 8) << 4));
      }
    }
    out += quantised_block_bytes(bits);
  }
}

void add_quantised(std::span<float> out, const std::byte* quantised, Bits bits) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* const block = quantised + i / kQuantisedBlock * quantised_block_bytes(bits);
    const std::size_t j = i % kQuantisedBlock;
    float scale = 0.0F;
    std::memcpy(&scale, block, sizeof(float));
    const std::byte* const elements = block + sizeof(float);
    int q = 0;
    if (bits == Bits::kEight) {
      q = static_cast<std::int8_t>(elements[j]);
    } else {
      const auto both = static_cast<unsigned>(elements[j % (kQuantisedBlock / 2)]);
      q = static_cast<int>(j < kQuantisedBlock / 2 ? both & 15U : both >> 4U) - 8;
    }
    const float value = static_cast<float>(q) * scale;
    out[i] += value;
  }
}

}  // namespace phub::kernels::reference
