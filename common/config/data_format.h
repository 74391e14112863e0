// How the images of a training are stored. A value with its words in configurations.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class DataFormat : std::uint8_t {
  // Images of one size, which are held in memory.
  kIdx,
  kCifar10,
  kCifar100,
  kSynthetic,
  // Encoded images of any size, which are decoded as they are needed.
  kFolder,
  kWebDataset,
  kTfRecord,
  kPacked,
};
inline constexpr Words<DataFormat, 8> kDataFormatWords = {
    {"idx", "cifar10", "cifar100", "synthetic", "folder", "webdataset", "tfrecord", "packed"}};
constexpr std::string_view name_of(DataFormat format) { return kDataFormatWords.of(format); }

constexpr bool is_encoded(DataFormat format) { return format >= DataFormat::kFolder; }

}  // namespace phub
