// Finds the image and the label in a tf.train.Example without reading the image.
//
// The message is TensorFlow's: an Example has Features (field 1), which is a map (field 1) of names
// (1) to Feature (2). A Feature is a BytesList (1), a FloatList (2) or an Int64List (3), each of
// whose values is field 1. Pure functions of what they read; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {

struct ExamplePlace {
  std::uint64_t image_offset = 0;  // in the message
  std::uint64_t image_bytes = 0;
  std::uint64_t label = 0;

  bool operator==(const ExamplePlace&) const = default;
};

// Errors name what the message lacks, and not the file: kInvalidArgument.
Result<ExamplePlace> find_in_example(std::span<const std::uint8_t> message,
                                     const TfRecordFeatures& features);

// The same in the `bytes` bytes of the window's file from `offset` on: values that are not wanted
// are skipped without being read. REQUIRES: bytes < 2^31. Error: also kDataLoss, when it cannot be
// read.
Result<ExamplePlace> find_in_example(FileWindow& window, std::uint64_t offset, std::uint64_t bytes,
                                     const TfRecordFeatures& features);

}  // namespace phub::data
