// What a training tells about itself as it goes.
//
// Values; an observer is called by the trainer's thread.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "worker/data/formats/read_counts.h"

namespace phub::train {

struct StepReport {
  std::uint64_t step = 0;  // from 0
  std::uint64_t epoch = 0;
  std::uint64_t epoch_step = 0;  // from 1, in its epoch
  std::uint64_t steps_per_epoch = 1;
  double loss = 0.0;          // mean over this worker's images
  std::uint32_t correct = 0;  // of them
  double accuracy = 0.0;      // their share, from 0 to 1
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint64_t skipped_steps = 0;  // before this one, in this run: left out by the servers
  double seconds = 0.0;
  double exchange_seconds = 0.0;  // of which the trainer spent in push and wait
  double input_seconds = 0.0;     // and in getting batches
  double images = 0.0;            // of all workers that take part
};

struct EpochReport {
  std::uint64_t epoch = 0;
  std::uint64_t steps = 0;      // done in this run
  double loss = 0.0;            // means over this worker's images
  double train_accuracy = 0.0;  // from 0 to 1
  double test_accuracy = -1.0;  // negative: not evaluated
  double seconds = 0.0;         // of training, without the evaluation
  double exchange_seconds = 0.0;
  double input_seconds = 0.0;
  double images = 0.0;              // of all workers that took part
  double images_per_second = 0.0;   // the same
  std::uint64_t skipped_steps = 0;  // of the run so far
  data::ReadCounts reads{};  // of this worker's images in the epoch, those made ahead included
};

// Told about progress, from within run().
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(const StepReport& report) = 0;
  // No key is under way. An error ends the run.
  virtual Status on_epoch(const EpochReport& report) = 0;
  // After every boundary_steps steps, when no key is under way. An error ends the run.
  virtual Status on_boundary(std::uint64_t /*next_step*/) { return {}; }
};

}  // namespace phub::train
