#include "worker/data/feed/maker.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"

namespace phub::data {
namespace {

constexpr std::size_t kPixelValues = 256;

std::vector<float> normalisation(const ImageFacts& facts) {
  std::vector<float> table;
  for (std::size_t channel = 0; channel < facts.channels; ++channel) {
    for (std::size_t value = 0; value < kPixelValues; ++value) {
      const float scaled = static_cast<float>(value) / 255.0F;
      table.push_back((scaled - facts.mean[channel]) / facts.deviation[channel]);
    }
  }
  return table;
}

}  // namespace

BatchMaker::BatchMaker(const Images& images, const BatchOrder& order, Form form)
    : images_(images), order_(order), form_(form), normalised_(normalisation(images.facts())) {}

void BatchMaker::prepare(Batch& batch) const {
  const std::size_t elements = order_.batch() * images_.facts().image_bytes();
  batch.labels.resize(order_.batch());
  batch.second_labels.resize(order_.mixes() ? order_.batch() : 0);
  batch.shares.resize(batch.second_labels.size());
  batch.receipts.resize(order_.batch());
  if (form_ == Form::kNumbers) {
    batch.numbers.resize(elements);
    return;
  }
  batch.moves.resize(order_.batch());
  if (batch.bytes.size() == elements) return;
  PHUB_CHECK(batch.bytes.empty(), "memory for a batch's pixels has their size");
  batch.own_bytes.resize(elements);
  batch.bytes = batch.own_bytes;
}

Status BatchMaker::make(ImageReader& reader, std::uint64_t index, std::uint32_t first,
                        std::uint32_t count, Batch& batch) const {
  if (order_.mixes()) return make_pairs(reader, index, first, count, batch);
  const std::size_t elements = images_.facts().image_bytes();
  for (std::uint32_t slot = first; slot < first + count; ++slot) {
    Shown shown = order_.shown(index, slot);
    PHUB_ASSIGN_OR_RETURN(const Image image,
                          reader.read(shown.image, shown.view ? &*shown.view : nullptr));
    batch.labels[slot] = image.label;
    batch.receipts[slot] = image.receipt;
    if (form_ == Form::kNumbers) {
      write(image, shown.move, std::span(batch.numbers).subspan(slot * elements, elements));
    } else {
      std::copy(image.pixels.begin(), image.pixels.end(), batch.bytes.data() + slot * elements);
      batch.moves[slot] = shown.move;
    }
  }
  return {};
}

// A reader's pixels go with its next image, so each image of a pair is moved as soon as it is read.
Status BatchMaker::make_pairs(ImageReader& reader, std::uint64_t index, std::uint32_t first,
                              std::uint32_t count, Batch& batch) const {
  PHUB_CHECK(first % 2 == 0 && count % 2 == 0, "whole pairs");
  const std::size_t elements = images_.facts().image_bytes();
  std::vector<std::uint8_t> own;  // a pair's pixels, where a batch has numbers
  if (form_ == Form::kNumbers) own.resize(2 * elements);
  for (std::uint32_t slot = first; slot < first + count; slot += 2) {
    const std::span<std::uint8_t> pair =
        form_ == Form::kNumbers ? own : batch.bytes.subspan(slot * elements, 2 * elements);
    for (const std::uint32_t i : {0U, 1U}) {
      Shown shown = order_.shown(index, slot + i);
      PHUB_ASSIGN_OR_RETURN(const Image image,
                            reader.read(shown.image, shown.view ? &*shown.view : nullptr));
      move_bytes(image, shown.move, pair.subspan(i * elements, elements));
      batch.labels[slot + i] = batch.second_labels[slot + 1 - i] = image.label;
      batch.receipts[slot + i] = image.receipt;
    }
    const MixShare share = order_.share(index, slot);
    mix_pair(pair.first(elements), pair.last(elements), share);
    for (const std::uint32_t i : {0U, 1U}) {
      batch.shares[slot + i] = static_cast<float>(share) / float{kWhole};
      const std::span<const std::uint8_t> mixed = pair.subspan(i * elements, elements);
      if (form_ == Form::kNumbers) {
        const auto out = std::span(batch.numbers).subspan((slot + i) * elements, elements);
        write({.pixels = mixed}, {}, out);
      } else {
        batch.moves[slot + i] = {};
      }
    }
  }
  return {};
}

template <typename Visit>
void BatchMaker::for_each_pixel(const Image& image, const Move& move, Visit visit) const {
  const std::int64_t height = images_.facts().height;
  const std::int64_t width = images_.facts().width;
  const std::size_t channels = images_.facts().channels;
  for (std::int64_t row = 0; row < height; ++row) {
    const std::int64_t from_row = row - move.down;
    for (std::int64_t column = 0; column < width; ++column) {
      const std::int64_t shifted = column - move.right;
      const std::int64_t from_column = move.flip ? width - 1 - shifted : shifted;
      const bool inside =
          from_row >= 0 && from_row < height && from_column >= 0 && from_column < width;
      const std::uint8_t* from =
          inside ? image.pixels.data() +
                       static_cast<std::size_t>(from_row * width + from_column) * channels
                 : nullptr;
      visit(from);
    }
  }
}

void BatchMaker::move_bytes(const Image& image, const Move& move,
                            std::span<std::uint8_t> out) const {
  const std::size_t channels = images_.facts().channels;
  std::uint8_t* to = out.data();
  for_each_pixel(image, move, [&](const std::uint8_t* from) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      *to++ = from == nullptr ? std::uint8_t{0} : from[channel];
    }
  });
}

void BatchMaker::write(const Image& image, const Move& move, std::span<float> out) const {
  const std::size_t channels = images_.facts().channels;
  float* to = out.data();
  for_each_pixel(image, move, [&](const std::uint8_t* from) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::size_t value = from == nullptr ? 0 : from[channel];
      *to++ = normalised_[channel * kPixelValues + value];
    }
  });
}

}  // namespace phub::data
