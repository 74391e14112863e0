// The JSON header of a safetensors file, to and from text.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensors/safetensors.h"

namespace phub {

// Padded to 8 bytes.
std::string safetensors_header(std::span<const TensorView> tensors, const TensorMetadata& metadata);

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in order of their data, which they fill without a gap
  TensorMetadata metadata;
};

// Errors: kDataLoss says what is wrong.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes);
// Looks no further when it has them.
Result<TensorMetadata> parse_safetensors_metadata(std::string_view text);

}  // namespace phub
