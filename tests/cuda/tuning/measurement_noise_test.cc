// What engines are timed on.
#include "worker/cuda/tuning/measurement_noise.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/reduce.h"

namespace phub::nn::cuda {
namespace {

std::vector<float> as_reals(const std::vector<std::byte>& bytes, DataType type) {
  std::vector<float> reals(bytes.size() / size_of(type));
  kernels::convert(reinterpret_cast<std::byte*>(reals.data()), DataType::kFloat32, bytes.data(),
                   type, reals.size());
  return reals;
}

TEST_CASE("Noise is of both signs in 16 bits, positive in fp32, and finite in every type") {
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32}) {
    const auto noise = measurement_noise(type, 1U << 16U, 3);
    // Buffers share memory: one may be read as what another was filled as.
    for (const DataType read : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32}) {
      INFO(name_of(type) << " read as " << name_of(read));
      std::size_t negative = 0;
      for (const float value : as_reals(noise, read)) {
        if (!std::isfinite(value)) FAIL(value);
        negative += value < 0.0F ? 1 : 0;
        if (element_type(read) == type && (std::fabs(value) < 0.5F || std::fabs(value) > 1.0F)) {
          FAIL(value);
        }
      }
      if (element_type(read) == type) CHECK((negative > 0) == (type != ElementType::kFloat32));
    }
    CHECK(measurement_noise(type, 100, 3) == measurement_noise(type, 100, 3));
    CHECK(measurement_noise(type, 100, 3) != measurement_noise(type, 100, 4));
  }
  for (const std::byte index : measurement_noise(ElementType::kInt8, 100, 3)) {
    CHECK(index == std::byte{0});
  }
}

TEST_CASE("Small launches take turns on so many buffers that a cache forgets them") {
  constexpr std::uint64_t kCache = 50U << 20U;  // an H100's
  for (std::uint64_t bytes = 1U << 20U; bytes < (400U << 20U); bytes += (3U << 20U) + 17) {
    INFO(bytes);
    const std::size_t sets = rotations(bytes, kCache);
    REQUIRE(sets >= 1);
    REQUIRE(sets <= kRotationsMax);
    if (sets < kRotationsMax && bytes < 2 * kCache) CHECK((sets - 1) * bytes >= 2 * kCache);
    if (bytes >= 2 * kCache) CHECK(sets == 1);
  }
  CHECK(rotations(1, kCache) == kRotationsMax);
  CHECK(rotations(0, kCache) == 1);
  CHECK(rotations(1, 0) == 1);
}

TEST_CASE("A graph's bytes are those of its operands in memory, each aligned") {
  OpGraph graph("g");
  const OperandId x = graph.device({2, 8, 3, 3}, ElementType::kFloat16);
  graph.virtual_like(x, ElementType::kFloat32);
  graph.constant(1.0F);
  CHECK(operand_bytes(graph.operand(x)) == 2 * 8 * 9 * 2);
  CHECK(device_bytes(graph) == 512);  // 288, to the next 256
}

}  // namespace
}  // namespace phub::nn::cuda
