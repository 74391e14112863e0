// Makes batches: which images a worker sees in which step, shifted, flipped and normalised.
//
// Every epoch is one seeded permutation of the images, cut into global batches of workers * batch;
// worker i takes the i-th contiguous part of each. So N workers with batch B see in step s exactly
// what one worker with batch N * B sees. Workers whose parts are of different sizes say where
// theirs is (BatchPart). What is left over at the end of an epoch is not used in it. Owned by one
// thread; the data set outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace phub::data {

// A worker's part of the global batch, where workers' parts differ.
struct BatchPart {
  std::uint64_t global = 0;  // images of all workers in a step; 0: all parts are equal
  std::uint64_t first = 0;   // of this worker's
};

struct LoaderOptions {
  std::uint32_t batch = 64;  // images of one worker in one step
  std::uint32_t workers = 1;
  std::uint32_t worker_index = 0;
  BatchPart part = {};
  std::uint64_t seed = 1;
  std::uint32_t shift_pixels = 0;  // up to so many in each direction; what comes in is black
  bool flip = false;               // left to right, half of the images

  std::uint64_t global_batch() const {
    return part.global > 0 ? part.global : std::uint64_t{batch} * workers;
  }
  std::uint64_t first_image() const {
    return part.global > 0 ? part.first : std::uint64_t{batch} * worker_index;
  }
};

struct Batch {
  std::vector<float> images;  // [image][row][column][channel], normalised
  std::vector<std::uint16_t> labels;
};

// A batch before it is moved and normalised: what a device does by itself.
struct ByteBatch {
  // output(row, column) = input(row - down, column - right), mirrored first where `flip`.
  struct Move {
    std::int32_t down = 0;
    std::int32_t right = 0;
    bool flip = false;
  };
  // [image][row][column][channel], as the data set has them: memory of who asks, of batch *
  // Dataset::image_bytes().
  std::span<std::uint8_t> pixels;
  std::vector<Move> moves;  // [image]
  std::vector<std::uint16_t> labels;
};

class Loader {
 public:
  // kInvalidArgument if there are fewer images than one global batch has.
  static Status check(const Dataset& dataset, const LoaderOptions& options);

  // Errors: check's.
  static Result<std::unique_ptr<Loader>> create(const Dataset& dataset,
                                                const LoaderOptions& options);

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::uint64_t steps_per_epoch() const;

  // The images of this worker in a step of an epoch. Valid until the next call.
  std::span<const std::uint32_t> samples(std::uint64_t epoch, std::uint64_t step);

  // A training batch. REQUIRES: step < steps_per_epoch().
  void load(std::uint64_t epoch, std::uint64_t step, Batch& batch);
  // The same images with the same moves, which are left to who takes the batch. REQUIRES: pixels of
  // the whole batch.
  void load(std::uint64_t epoch, std::uint64_t step, ByteBatch& batch);
  const Dataset& dataset() const { return dataset_; }

 private:
  Loader(const Dataset& dataset, const LoaderOptions& options);
  void permute(std::uint64_t epoch);
  ByteBatch::Move move_of(std::uint64_t epoch, std::uint32_t sample) const;

  const Dataset& dataset_;
  LoaderOptions options_;
  std::vector<float> normalised_;  // [channel][pixel value]
  std::vector<std::uint32_t> permutation_;
  std::uint64_t permuted_epoch_ = 0;
};

// Images from `first` on, in order, as they are but normalised: for evaluation. The batch
// keeps its number of labels; behind the last image, that one is repeated. REQUIRES: as load.
void load_in_order(const Dataset& dataset, std::size_t first, Batch& batch);
void load_in_order(const Dataset& dataset, std::size_t first, ByteBatch& batch);

}  // namespace phub::data
