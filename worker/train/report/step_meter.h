// What a training's steps take, in the form that servers are told.
//
// Owned and called by the trainer's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/steps/step_waits.h"
#include "worker/data/formats/read_counts.h"
#include "worker/data/formats/sample_set.h"
#include "worker/train/report/observer.h"

namespace phub::train {

class StepMeter {
 public:
  // `input_threads`: that make batches; 0: the trainer's own does.
  explicit StepMeter(std::uint32_t input_threads);

  // Counts the samples of a batch, where their set says from whose memory they came.
  void add(std::span<const data::Receipt> receipts);
  // The trainer waited for the exchange between two steps.
  void add_wait(double seconds) { waited_seconds_ += seconds; }

  // What was measured since the last step. `samples`: of this worker in the step. `reads`: of its
  // set so far. Nothing: the clock gives no sensible times.
  std::optional<StepWaits> take(const StepReport& report, std::uint64_t samples,
                                const data::ReadCounts& reads);

 private:
  const std::uint32_t input_threads_;
  const std::uint32_t cpus_;
  double waited_seconds_ = 0.0;
  std::uint64_t own_ = 0, peer_ = 0, source_ = 0;  // receipts
  data::ReadCounts reads_;                         // up to the last step's end
};

}  // namespace phub::train
