// Elements of a typed array on the host, as fp32. For the scalar specifications.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/dtype.h"
#include "kernels/reference.h"

namespace phub::kernels::cuda::reference {

inline float load(const void* array, DataType type, std::int64_t index) {
  const auto* bytes =
      static_cast<const std::byte*>(array) + static_cast<std::size_t>(index) * size_of(type);
  if (type == DataType::kFloat32) {
    float value = 0.0F;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return type == DataType::kFloat16 ? kernels::reference::float_from_float16(bits)
                                    : kernels::reference::float_from_bfloat16(bits);
}

inline void store(void* array, DataType type, std::int64_t index, float value) {
  auto* bytes = static_cast<std::byte*>(array) + static_cast<std::size_t>(index) * size_of(type);
  if (type == DataType::kFloat32) {
    std::memcpy(bytes, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = type == DataType::kFloat16
                                 ? kernels::reference::float16_from_float(value)
                                 : kernels::reference::bfloat16_from_float(value);
  std::memcpy(bytes, &bits, sizeof(bits));
}

}  // namespace phub::kernels::cuda::reference
