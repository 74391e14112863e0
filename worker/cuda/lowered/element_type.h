// Element types on the device: those that travel, and those that only kernels see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/dtype.h"

namespace phub::nn::cuda {

enum class ElementType : std::uint8_t { kFloat32, kFloat16, kBfloat16, kInt8 };

constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kInt8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "fp32";
    case ElementType::kFloat16:
      return "fp16";
    case ElementType::kBfloat16:
      return "bf16";
    case ElementType::kInt8:
      return "int8";
  }
  return "?";
}

constexpr ElementType element_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return ElementType::kFloat16;
    case DataType::kBfloat16:
      return ElementType::kBfloat16;
    case DataType::kFloat32:
      break;
  }
  return ElementType::kFloat32;
}

}  // namespace phub::nn::cuda
