#include "worker/cuda/tuning/measurement_noise.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "worker/cuda/lowered/memory_plan.h"

namespace phub::nn::cuda {
namespace {

// Sign, exponent of [0.5, 1), and so many bits of mantissa that are drawn.
struct HalfFormat {
  std::uint32_t half;  // 0.5
  std::uint32_t mantissa;
};
constexpr HalfFormat kFp16{0x3800U, 0x3ffU};
constexpr HalfFormat kBf16{0x3f00U, 0x7fU};
constexpr std::uint32_t kSign = 0x8000U;

void fill(std::vector<std::byte>& bytes, const HalfFormat& format, std::mt19937& random) {
  for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2) {
    const auto drawn = static_cast<std::uint32_t>(random());
    const auto value =
        static_cast<std::uint16_t>(format.half | (drawn & format.mantissa) | (drawn & kSign));
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
}

// [0.5, 1): bf16's in the upper half, fp16's in the lower one.
void fill_reals(std::vector<std::byte>& bytes, std::mt19937& random) {
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const auto drawn = static_cast<std::uint32_t>(random());
    const std::uint32_t upper = kBf16.half | (drawn & kBf16.mantissa);
    const std::uint32_t lower = kFp16.half | (drawn >> 16U & kFp16.mantissa);
    const std::uint32_t value = upper << 16U | lower;
    std::memcpy(bytes.data() + i, &value, sizeof(value));
  }
}

}  // namespace

std::vector<std::byte> measurement_noise(ElementType type, std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> made(bytes);
  std::mt19937 random(seed);
  switch (type) {
    case ElementType::kFloat16:
      fill(made, kFp16, random);
      break;
    case ElementType::kBfloat16:
      fill(made, kBf16, random);
      break;
    case ElementType::kFloat32:
      fill_reals(made, random);
      break;
    case ElementType::kInt8:
      break;
  }
  return made;
}

std::uint64_t operand_bytes(const Operand& operand) {
  return static_cast<std::uint64_t>(operand.elements()) * size_of(operand.type);
}

std::uint64_t device_bytes(const OpGraph& graph) {
  std::uint64_t bytes = 0;
  for (const Operand& operand : graph.operands()) {
    if (operand.storage == Storage::kDevice) bytes += aligned_bytes(operand_bytes(operand));
  }
  return bytes;
}

std::size_t rotations(std::uint64_t launch_bytes, std::uint64_t cache_bytes) {
  if (launch_bytes == 0) return 1;
  const std::uint64_t others = (2 * cache_bytes + launch_bytes - 1) / launch_bytes;
  return launch_bytes >= 2 * cache_bytes
             ? 1
             : static_cast<std::size_t>(std::min<std::uint64_t>(kRotationsMax, 1 + others));
}

}  // namespace phub::nn::cuda
