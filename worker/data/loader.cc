#include "worker/data/loader.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "worker/data/random.h"

namespace phub::data {
namespace {

constexpr std::size_t kPixelValues = 256;

using Move = ByteBatch::Move;

std::vector<float> normalisation(const Dataset& dataset) {
  std::vector<float> table;
  for (std::size_t channel = 0; channel < dataset.channels; ++channel) {
    for (std::size_t value = 0; value < kPixelValues; ++value) {
      const float scaled = static_cast<float>(value) / 255.0F;
      table.push_back((scaled - dataset.mean[channel]) / dataset.deviation[channel]);
    }
  }
  return table;
}

// Writes one image; `table` is normalisation()'s.
void write_image(const Dataset& dataset, std::size_t sample, const Move& move,
                 std::span<const float> table, std::span<float> out) {
  const std::uint8_t* pixels = dataset.pixels.data() + sample * dataset.image_bytes();
  const std::int64_t height = dataset.height;
  const std::int64_t width = dataset.width;
  const std::size_t channels = dataset.channels;
  float* to = out.data();
  for (std::int64_t row = 0; row < height; ++row) {
    const std::int64_t from_row = row - move.down;
    for (std::int64_t column = 0; column < width; ++column) {
      const std::int64_t shifted = column - move.right;
      const std::int64_t from_column = move.flip ? width - 1 - shifted : shifted;
      const bool inside =
          from_row >= 0 && from_row < height && from_column >= 0 && from_column < width;
      const std::uint8_t* from =
          inside ? pixels + static_cast<std::size_t>(from_row * width + from_column) * channels
                 : nullptr;
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const std::size_t value = from == nullptr ? 0 : from[channel];
        *to++ = table[channel * kPixelValues + value];
      }
    }
  }
}

// With its label.
void copy_image(const Dataset& dataset, std::size_t sample, std::size_t slot, ByteBatch& batch) {
  const std::size_t bytes = dataset.image_bytes();
  std::copy_n(dataset.pixels.data() + sample * bytes, bytes, batch.pixels.data() + slot * bytes);
  batch.labels[slot] = dataset.labels[sample];
}

}  // namespace

Status Loader::check(const Dataset& dataset, const LoaderOptions& options) {
  const std::uint64_t global = options.global_batch();
  if (global > 0 && dataset.images() >= global) return {};
  return {Code::kInvalidArgument, "a step takes " + std::to_string(global) + " images (" +
                                      std::to_string(options.workers) +
                                      " workers with train.batch " + std::to_string(options.batch) +
                                      ") but the data set has " + std::to_string(dataset.images()) +
                                      ": choose a batch that fits"};
}

Result<std::unique_ptr<Loader>> Loader::create(const Dataset& dataset,
                                               const LoaderOptions& options) {
  PHUB_RETURN_IF_ERROR(check(dataset, options));
  PHUB_CHECK(options.worker_index < options.workers, "a worker's index is below their number");
  return std::unique_ptr<Loader>(new Loader(dataset, options));
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      options_(options),
      normalised_(normalisation(dataset)),
      permutation_(dataset.images()) {
  permute(0);
}

std::uint64_t Loader::steps_per_epoch() const {
  return dataset_.images() / options_.global_batch();
}

void Loader::permute(std::uint64_t epoch) {
  // Fisher and Yates.
  CounterRandom random(options_.seed, Purpose::kPermutation, epoch, 0);
  std::iota(permutation_.begin(), permutation_.end(), 0U);
  for (std::size_t left = permutation_.size(); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.below(left)]);
  }
  permuted_epoch_ = epoch;
}

std::span<const std::uint32_t> Loader::samples(std::uint64_t epoch, std::uint64_t step) {
  PHUB_DCHECK(step < steps_per_epoch(), "the step is within the epoch");
  if (epoch != permuted_epoch_) permute(epoch);
  return std::span(permutation_)
      .subspan(step * options_.global_batch() + options_.first_image(), options_.batch);
}

ByteBatch::Move Loader::move_of(std::uint64_t epoch, std::uint32_t sample) const {
  CounterRandom random(options_.seed, Purpose::kAugmentation, epoch, sample);
  const std::int64_t reach = options_.shift_pixels;
  const auto shift = [&] {
    return static_cast<std::int32_t>(
        static_cast<std::int64_t>(random.below(2 * options_.shift_pixels + 1ULL)) - reach);
  };
  return {.down = shift(), .right = shift(), .flip = options_.flip && random.below(2) > 0};
}

void Loader::load(std::uint64_t epoch, std::uint64_t step, ByteBatch& batch) {
  PHUB_CHECK(batch.pixels.size() == options_.batch * dataset_.image_bytes(), "a batch's pixels");
  batch.moves.resize(options_.batch);
  batch.labels.resize(options_.batch);
  std::size_t slot = 0;
  for (const std::uint32_t sample : samples(epoch, step)) {
    copy_image(dataset_, sample, slot, batch);
    batch.moves[slot++] = move_of(epoch, sample);
  }
}

void Loader::load(std::uint64_t epoch, std::uint64_t step, Batch& batch) {
  const std::size_t image_elements = dataset_.image_bytes();
  batch.images.resize(options_.batch * image_elements);
  batch.labels.resize(options_.batch);
  std::size_t slot = 0;
  for (const std::uint32_t sample : samples(epoch, step)) {
    write_image(dataset_, sample, move_of(epoch, sample), normalised_,
                std::span(batch.images).subspan(slot * image_elements, image_elements));
    batch.labels[slot++] = dataset_.labels[sample];
  }
}

void load_in_order(const Dataset& dataset, std::size_t first, Batch& batch) {
  PHUB_CHECK(first < dataset.images(), "the first image exists");
  const std::vector<float> table = normalisation(dataset);
  const std::size_t image_elements = dataset.image_bytes();
  batch.images.resize(batch.labels.size() * image_elements);
  for (std::size_t slot = 0; slot < batch.labels.size(); ++slot) {
    const std::size_t sample = std::min(first + slot, dataset.images() - 1);
    write_image(dataset, sample, {}, table,
                std::span(batch.images).subspan(slot * image_elements, image_elements));
    batch.labels[slot] = dataset.labels[sample];
  }
}

void load_in_order(const Dataset& dataset, std::size_t first, ByteBatch& batch) {
  PHUB_CHECK(first < dataset.images(), "the first image exists");
  PHUB_CHECK(batch.pixels.size() == batch.labels.size() * dataset.image_bytes(),
             "a batch's pixels");
  batch.moves.assign(batch.labels.size(), {});
  for (std::size_t slot = 0; slot < batch.labels.size(); ++slot) {
    copy_image(dataset, std::min(first + slot, dataset.images() - 1), slot, batch);
  }
}

}  // namespace phub::data
