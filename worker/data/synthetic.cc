#include <algorithm>

#include "common/samples/random.h"
#include "worker/data/dataset.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kClassesMax = 65'536;  // a label has 16 bits

// Image `index` is its class's pattern, half covered by noise of its own.
void append_image(const SyntheticOptions& options, std::uint64_t index, Dataset& dataset) {
  const auto label = static_cast<std::uint16_t>(index % options.classes);
  CounterRandom pattern(options.seed, Purpose::kSynthetic, 0, label);
  CounterRandom noise(options.seed, Purpose::kSynthetic, 1, index);
  dataset.labels.push_back(label);
  for (std::size_t i = 0; i < dataset.facts.image_bytes(); ++i) {
    const std::uint64_t sum = pattern.below(256) + noise.below(256);
    dataset.pixels.push_back(static_cast<std::uint8_t>(sum / 2));
  }
}

Dataset make(const SyntheticOptions& options, std::uint64_t first, std::uint64_t count) {
  Dataset dataset;
  dataset.facts.channels = options.channels;
  dataset.facts.height = options.height;
  dataset.facts.width = options.width;
  dataset.facts.classes = options.classes;
  dataset.facts.mean.assign(options.channels, 0.5F);
  dataset.facts.deviation.assign(options.channels, 0.2F);
  for (std::uint64_t i = 0; i < count; ++i) append_image(options, first + i, dataset);
  return dataset;
}

}  // namespace

Result<Datasets> make_synthetic(const SyntheticOptions& options) {
  if (options.images == 0) {
    return Status(Code::kInvalidArgument, "data.synthetic_images is 0: give a number of images");
  }
  if (options.classes == 0 || options.classes > kClassesMax) {
    return Status(Code::kInvalidArgument, "model.classes is " + std::to_string(options.classes) +
                                              ": synthetic labels go from 1 to 65536 classes");
  }
  const std::uint64_t tests = std::max<std::uint64_t>(1, options.images / 4);
  return Datasets{make(options, 0, options.images), make(options, options.images, tests)};
}

}  // namespace phub::data
