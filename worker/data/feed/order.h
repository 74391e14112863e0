// Which images the batches of a run have, and how each is moved.
//
// Orders are pure functions of their options: the same for any number of threads and workers, so
// that a run can go on anywhere. Any thread may ask. The batches of an order are counted from 0.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/status.h"
#include "common/samples/random.h"
#include "common/samples/sample_stream.h"
#include "worker/data/feed/mixing.h"

namespace phub::data {

// output(row, column) = input(row - down, column - right), mirrored first where `flip`.
struct Move {
  std::int32_t down = 0;
  std::int32_t right = 0;
  bool flip = false;
};

struct Shown {
  std::uint32_t image = 0;
  Move move{};
  std::optional<CounterRandom> view{};  // of a training: what ImageReader::read draws from
};

class BatchOrder {
 public:
  virtual ~BatchOrder() = default;
  virtual std::uint32_t batch() const = 0;    // images in each batch
  virtual std::uint64_t batches() const = 0;  // in all; a training's go on for ever
  // REQUIRES: index < batches(), slot < batch().
  virtual Shown shown(std::uint64_t index, std::uint32_t slot) const = 0;

  // Whether the images of slots 2k and 2k + 1 are mixed with each other, after they are moved.
  virtual bool mixes() const { return false; }
  // What each image of the pair at `slot` and `slot + 1` keeps of itself. REQUIRES: mixes(), an
  // even slot.
  virtual MixShare share(std::uint64_t /*index*/, std::uint32_t /*slot*/) const { return kWhole; }
};

// A worker's part of the global batch, where workers' parts differ.
struct BatchPart {
  std::uint64_t global = 0;  // images of all workers in a step; 0: all parts are equal
  std::uint64_t first = 0;   // of this worker's
};

// Where a run begins or goes on: the steps behind it, and the samples of the stream that they took.
struct RunPlace {
  std::uint64_t step = 0;
  std::uint64_t used = 0;
};

struct TrainingOptions {
  std::uint32_t batch = 64;  // images of one worker in one batch
  std::uint32_t workers = 1;
  std::uint32_t worker_index = 0;
  BatchPart part = {};
  std::uint64_t seed = 1;
  std::uint32_t accumulate = 1;    // batches of a step
  std::uint32_t shift_pixels = 0;  // at most, in each direction; what comes in is black
  bool flip = false;               // left to right, half of the images
  float mixup = 0.0F;              // alpha of the distribution of shares; 0: images are not mixed
  RunPlace start = {};

  std::uint64_t global_batch() const {
    return part.global > 0 ? part.global : std::uint64_t{batch} * workers;
  }
  std::uint64_t first_image() const {
    return part.global > 0 ? part.first : std::uint64_t{batch} * worker_index;
  }
};

// Steps take the images of a SampleStream, `samples_per_step` each, in `accumulate` global batches.
// Worker i takes the i-th contiguous part of a global batch. So N workers with batch B see in batch
// s exactly what one worker with batch N * B sees. Workers whose parts are of different sizes say
// where theirs is (BatchPart). Steps and batches are counted from the beginning of the training,
// also in a run that goes on at `start`, where earlier ones must not be asked for. Images 2k and
// 2k + 1 of a global batch are a pair for mixup. So parts have even sizes, and all workers together
// make the pairs that one makes.
class TrainingOrder : public BatchOrder {
 public:
  // kInvalidArgument if there are fewer images than a step takes, or a part would cut a pair.
  static Status check(std::uint64_t images, const TrainingOptions& options);

  // REQUIRES: check.
  TrainingOrder(std::uint64_t images, const TrainingOptions& options);

  std::uint64_t images() const { return stream_.samples(); }
  std::uint64_t global_batch() const { return options_.global_batch(); }
  std::uint64_t samples_per_step() const { return options_.global_batch() * options_.accumulate; }
  // Samples that the steps before `step` took.
  std::uint64_t used(std::uint64_t step) const {
    return options_.start.used + (step - options_.start.step) * samples_per_step();
  }
  // The steps that `epochs` epochs take: all samples but those that fill no step.
  std::uint64_t steps_in(std::uint64_t epochs) const;
  // Whole steps in an epoch.
  std::uint64_t steps_per_epoch() const { return images() / samples_per_step(); }
  // The epoch of a step's last sample.
  std::uint64_t epoch_of(std::uint64_t step) const { return stream_.epoch_of(used(step + 1) - 1); }
  // Its number there, from 1 to steps_per_epoch(), for people.
  std::uint64_t step_of_epoch(std::uint64_t step) const;
  // How many steps of this size use as many samples as the steps before `step` did.
  std::uint64_t steps_alike(std::uint64_t step) const {
    return (used(step) + samples_per_step() - 1) / samples_per_step();
  }

  // Where the image in a slot of this worker's batch is in the stream, and which epoch that is.
  std::uint64_t position(std::uint64_t index, std::uint32_t slot) const;
  std::uint64_t epoch_at(std::uint64_t position) const { return stream_.epoch_of(position); }
  // The position in the stream where the batches `index` of all workers end.
  std::uint64_t batch_end(std::uint64_t index) const;

  std::uint32_t batch() const override { return options_.batch; }
  std::uint64_t batches() const override { return ~std::uint64_t{0}; }
  Shown shown(std::uint64_t index, std::uint32_t slot) const override;
  bool mixes() const override { return options_.mixup > 0.0F; }
  MixShare share(std::uint64_t index, std::uint32_t slot) const override;

 private:
  static Status check_pairs(const TrainingOptions& options);
  Move move_of(std::uint64_t epoch, std::uint32_t image) const;

  TrainingOptions options_;
  SampleStream stream_;
};

// All images in order, not moved, for an evaluation. The last batch repeats the last image.
class EvaluationOrder : public BatchOrder {
 public:
  // REQUIRES: images > 0, batch > 0.
  EvaluationOrder(std::uint64_t images, std::uint32_t batch) : images_(images), batch_(batch) {}

  std::uint32_t batch() const override { return batch_; }
  std::uint64_t batches() const override { return (images_ + batch_ - 1) / batch_; }
  Shown shown(std::uint64_t index, std::uint32_t slot) const override;

 private:
  std::uint64_t images_;
  std::uint32_t batch_;
};

}  // namespace phub::data
