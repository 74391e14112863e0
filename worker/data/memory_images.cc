#include <utility>

#include "worker/data/dataset.h"

namespace phub::data {
namespace {

class MemoryReader : public ImageReader {
 public:
  explicit MemoryReader(const Dataset& dataset) : dataset_(dataset) {}

  Result<Image> read(std::uint64_t image, CounterRandom* /*random*/) override {
    const std::size_t bytes = dataset_.facts.image_bytes();
    return Image{std::span(dataset_.pixels).subspan(image * bytes, bytes), dataset_.labels[image]};
  }

 private:
  const Dataset& dataset_;
};

class MemoryImages : public Images {
 public:
  explicit MemoryImages(Dataset dataset) : dataset_(std::move(dataset)) {}

  const ImageFacts& facts() const override { return dataset_.facts; }
  std::uint64_t images() const override { return dataset_.images(); }
  std::uint16_t label(std::uint64_t image) const override { return dataset_.labels[image]; }
  std::unique_ptr<ImageReader> reader() const override {
    return std::make_unique<MemoryReader>(dataset_);
  }

 private:
  Dataset dataset_;
};

}  // namespace

std::unique_ptr<Images> images_of(Dataset dataset) {
  return std::make_unique<MemoryImages>(std::move(dataset));
}

ImageSets image_sets_of(Datasets datasets) {
  return {images_of(std::move(datasets.train)), images_of(std::move(datasets.test))};
}

}  // namespace phub::data
