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
  const std::uint64_t global = options.global_batch() * options.accumulate;
  if (global > 0 && images >= global) return {};
  return {Code::kInvalidArgument, "a step takes " + std::to_string(global) + " images (" +
                                      std::to_string(options.workers) +
                                      " workers with train.batch " + std::to_string(options.batch) +
                                      batches_of(options.accumulate) + ") but the data set has " +
                                      std::to_string(images) + ": choose a batch that fits"};
}

TrainingOrder::TrainingOrder(std::uint64_t images, const TrainingOptions& options)
    : options_(options), stream_(images, options.seed) {
  PHUB_CHECK(options.worker_index < options.workers, "a worker's index is below their number");
  PHUB_CHECK(images >= samples_per_step(), "a step has as many images as there are");
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

Shown TrainingOrder::shown(std::uint64_t index, std::uint32_t slot) const {
  const std::uint64_t behind = index - options_.start.step * options_.accumulate;
  const std::uint64_t position =
      options_.start.used + behind * options_.global_batch() + options_.first_image() + slot;
  const std::uint64_t epoch = stream_.epoch_of(position);
  const std::uint32_t image = stream_.at(position);
  return {image, move_of(epoch, image), CounterRandom(options_.seed, Purpose::kView, epoch, image)};
}

Shown EvaluationOrder::shown(std::uint64_t index, std::uint32_t slot) const {
  return {static_cast<std::uint32_t>(std::min(index * batch_ + slot, images_ - 1))};
}

}  // namespace phub::data
