// Element types that travel on the wire. The server always accumulates, and keeps its master
// parameters and optimizer state, in fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class DataType : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

constexpr std::size_t size_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

inline constexpr Words<DataType, 3> kDataTypeWords = {{"fp32", "fp16", "bf16"}};
constexpr std::string_view name_of(DataType type) { return kDataTypeWords.of(type); }
constexpr auto parse_data_type(std::string_view word) { return kDataTypeWords.parse(word); }

}  // namespace phub
