// What a person sees of the training: a line for each epoch, and a bar while one runs.
//
// Owned and called by the trainer's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "worker/train/trainer.h"

namespace phub::train {

// "epoch  3/12  loss 0.0812  train 97.6 %  test 98.1 %  5123 images/s  exchange 0.41 s (12 %)"
std::string epoch_line(const EpochReport& report, std::uint64_t epochs);

struct ConsoleOptions {
  std::uint64_t epochs = 1;
  std::uint64_t steps_per_epoch = 1;
  bool quiet = false;  // nothing at all
  bool bar = false;    // standard error is a terminal
};

// Lines go to standard output, the bar to standard error.
class Console {
 public:
  explicit Console(const ConsoleOptions& options) : options_(options) {}

  void step(const StepReport& report);
  void epoch(const EpochReport& report);

 private:
  void clear_bar();

  ConsoleOptions options_;
  bool bar_shown_ = false;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace phub::train
