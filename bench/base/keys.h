// The key sizes a bench exchanges: those of ResNet-50, one key, or equal keys.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub::bench {

inline constexpr std::uint64_t kResnet50Elements = 25'557'032;

// Elements of the 161 parameter tensors of ResNet-50 (He et al., "Deep residual learning for image
// recognition", 2016, table 1; 1,000 classes), in forward order: convolutions without bias, batch
// normalisations with scale and shift, one fully connected layer.
std::vector<std::uint64_t> resnet50_keys();

// `how` is "resnet50" (for other totals each key keeps its share), "one", a number of equal keys,
// or "auto": resnet50 from a million elements on, else one. The sizes add up to `elements`.
// Errors: kInvalidArgument names the word and what is accepted.
Result<std::vector<std::uint64_t>> make_keys(std::string_view how, std::uint64_t elements);

}  // namespace phub::bench
