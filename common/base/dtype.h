// Element types that travel on the wire. The server always accumulates, and keeps its master
// parameters and optimizer state, in fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace phub {

enum class DataType : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

constexpr std::size_t size_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "fp32";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kBfloat16:
      return "bf16";
  }
  return "?";
}

// "fp32", "fp16", "bf16"; nothing for any other word.
constexpr std::optional<DataType> parse_data_type(std::string_view word) {
  for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    if (word == name_of(type)) return type;
  }
  return std::nullopt;
}

}  // namespace phub
