// Labelled images as a network takes them, wherever they come from: memory, or files that a reader
// decodes.
//
// A set is read-only once it is open, and any thread may ask it. A thread that wants pixels makes a
// reader of its own, which the set outlives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/samples/random.h"
#include "worker/data/formats/read_counts.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

// What all images of a set have in common.
struct ImageFacts {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t classes = 0;  // every label is below
  // What normalisation subtracts and divides by, [channel], where white is 1.
  std::vector<float> mean{};
  std::vector<float> deviation{};

  std::size_t image_bytes() const { return static_cast<std::size_t>(channels) * height * width; }
};

struct Image {
  std::span<const std::uint8_t> pixels;  // [row][column][channel], as the facts say
  std::uint16_t label = 0;
  Receipt receipt = {};  // of the file's bytes, where the set keeps account
};

// Reads one image after another, for one thread.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  // The pixels are valid until the next call. With `random`, a training's view of the image is
  // drawn from it; null: the view of a test. REQUIRES: image < images(). Errors name the file and
  // the cure.
  virtual Result<Image> read(std::uint64_t image, CounterRandom* random) = 0;
};

class Images {
 public:
  virtual ~Images() = default;
  virtual const ImageFacts& facts() const = 0;
  virtual std::uint64_t images() const = 0;
  // REQUIRES: image < images().
  virtual std::uint16_t label(std::uint64_t image) const = 0;
  // What people call a class: its number where the set has no names. REQUIRES: label <
  // facts().classes.
  virtual std::string class_name(std::uint16_t label) const { return std::to_string(label); }
  virtual std::unique_ptr<ImageReader> reader() const = 0;
  // The same images with that height and width, over the same files, copies and counts. It may
  // outlive this. Null: the images have one size.
  virtual std::unique_ptr<Images> at_size(std::uint32_t /*height*/, std::uint32_t /*width*/) const {
    return nullptr;
  }
  // Where images came from; zeros for a set without a cache.
  virtual ReadCounts reads() const { return {}; }
};

struct ImageSets {
  std::unique_ptr<Images> train;
  std::unique_ptr<Images> test;
};

}  // namespace phub::data
