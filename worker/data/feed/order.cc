#include "worker/data/feed/order.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace phub::data {
namespace {

std::string batches_of(std::uint32_t count) {
  return count == 1 ? "" : " and train.accumulate " + std::to_string(count);
}

}  // namespace

Status TrainingOrder::check(std::uint64_t images, const TrainingOptions& options) {
  PHUB_RETURN_IF_ERROR(check_pairs(options));
  const std::uint64_t global = options.global_batch() * options.accumulate;
  if (global > 0 && images >= global) return {};
  return {Code::kInvalidArgument, "a step takes " + std::to_string(global) + " images (" +
                                      std::to_string(options.workers) +
                                      " workers with train.batch " + std::to_string(options.batch) +
                                      batches_of(options.accumulate) + ") but the data set has " +
                                      std::to_string(images) + ": choose a batch that fits"};
}

Status TrainingOrder::check_pairs(const TrainingOptions& options) {
  const auto is_odd = [](std::uint64_t number) { return number % 2 == 1; };
  const bool is_cut =
      is_odd(options.batch) || is_odd(options.first_image()) || is_odd(options.global_batch());
  if (options.mixup == 0.0F || !is_cut) return {};
  return {Code::kInvalidArgument,
          "train.batch: " + std::to_string(options.batch) + " images from image " +
              std::to_string(options.first_image()) + " on, of a batch of " +
              std::to_string(options.global_batch()) +
              ", cut a pair of images that data.mixup mixes: choose an even train.batch, or a "
              "train.share that gives each worker an even part"};
}

TrainingOrder::TrainingOrder(std::uint64_t images, const TrainingOptions& options)
    : options_(options), stream_(images, options.seed) {
  PHUB_CHECK(options.worker_index < options.workers, "a worker's index is below their number");
  PHUB_CHECK(images >= samples_per_step(), "a step has as many images as there are");
  PHUB_CHECK(check_pairs(options).ok(), "no part of a batch cuts a pair");
}

std::uint64_t TrainingOrder::steps_in(std::uint64_t epochs) const {
  const std::uint64_t all = epochs * images();
  const RunPlace& start = options_.start;
  return start.step + (all > start.used ? (all - start.used) / samples_per_step() : 0);
}

std::uint64_t TrainingOrder::step_of_epoch(std::uint64_t step) const {
  const std::uint64_t size = samples_per_step();
  const std::uint64_t of_epoch = used(step + 1) - epoch_of(step) * images();
  return std::min((of_epoch + size - 1) / size, steps_per_epoch());
}

Move TrainingOrder::move_of(std::uint64_t epoch, std::uint32_t image) const {
  CounterRandom random(options_.seed, Purpose::kAugmentation, epoch, image);
  const std::int64_t reach = options_.shift_pixels;
  const auto shift = [&] {
    return static_cast<std::int32_t>(
        static_cast<std::int64_t>(random.below(2 * options_.shift_pixels + 1ULL)) - reach);
  };
  return {.down = shift(), .right = shift(), .flip = options_.flip && random.below(2) > 0};
}

std::uint64_t TrainingOrder::batch_end(std::uint64_t index) const {
  const std::uint64_t behind = index + 1 - options_.start.step * options_.accumulate;
  return options_.start.used + behind * options_.global_batch();
}

std::uint64_t TrainingOrder::position(std::uint64_t index, std::uint32_t slot) const {
  return batch_end(index) - options_.global_batch() + options_.first_image() + slot;
}

MixShare TrainingOrder::share(std::uint64_t index, std::uint32_t slot) const {
  return draw_share(options_.mixup,
                    CounterRandom(options_.seed, Purpose::kMixup, position(index, slot), 0));
}

Shown TrainingOrder::shown(std::uint64_t index, std::uint32_t slot) const {
  const std::uint64_t at = position(index, slot);
  const std::uint64_t epoch = stream_.epoch_of(at);
  const std::uint32_t image = stream_.at(at);
  return {image, move_of(epoch, image), CounterRandom(options_.seed, Purpose::kView, epoch, image)};
}

Shown EvaluationOrder::shown(std::uint64_t index, std::uint32_t slot) const {
  return {static_cast<std::uint32_t>(std::min(index * batch_ + slot, images_ - 1))};
}

}  // namespace phub::data
