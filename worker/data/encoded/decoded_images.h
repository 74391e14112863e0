// Decoded images in a store that all processes of a host share: each is decoded once, and later
// epochs cut and resize its pixels.
//
// A content is two numbers of 4 bytes, columns and rows, and the pixels [row][column][channel]. Any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/cache/store.h"
#include "worker/data/images/geometry.h"
#include "worker/data/images/reader.h"

namespace phub::data {

class DecodedImages {
 public:
  // `store` may be null: then nothing is kept. `side`: images are kept with at most this number of
  // pixels on their shorter side; 0: as their files have them.
  DecodedImages(std::unique_ptr<cache::SampleStore> store, std::uint32_t channels,
                std::uint32_t side)
      : store_(std::move(store)), channels_(channels), side_(side) {}

  std::uint32_t channels() const { return channels_; }
  // The size in which an image of that size is kept. Nothing: it is too large.
  std::optional<ImageSize> size_for(ImageSize image) const;

  struct Found {
    cache::StoreEntry entry;
    ImageSize size;
  };
  std::optional<Found> find(std::uint64_t image) const;
  // Whole rows of it, in `into`. False: they cannot be read.
  bool read_rows(const Found& found, PixelRange rows, std::vector<std::uint8_t>& into) const;

  // Gives `content` room for an image, and returns where its pixels go.
  std::span<std::uint8_t> begin(ImageSize size, std::vector<std::uint8_t>& content) const;
  void keep(std::uint64_t image, std::span<const std::uint8_t> content) {
    if (store_) store_->keep(image, content);
  }

 private:
  std::unique_ptr<cache::SampleStore> store_;
  std::uint32_t channels_, side_;
};

}  // namespace phub::data
