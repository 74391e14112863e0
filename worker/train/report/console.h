// What a person sees of the training: a line for each epoch, and a bar while one runs.
//
// Owned and called by the trainer's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "worker/train/report/observer.h"

namespace phub::train {

// "epoch  3/12  loss 0.0812  train 97.6 %  test 98.1 %  5123 images/s  exchange 0.41 s (12 %)".
// With data.cache the share of images that it had follows, "cache 97 %". The time that training
// waited for batches is last, "input 0.20 s (6 %)", if it is 5 % or more.
std::string epoch_line(const EpochReport& report, std::uint64_t epochs);

// What to do where training waited for batches a fifth of the time or more; empty below.
std::string input_note(const EpochReport& report);

// What the bar shows.
struct TrainingProgress {
  std::uint64_t epoch = 0;  // from 0
  std::uint64_t epochs = 1;
  std::uint64_t steps_done = 0;  // of the epoch
  std::uint64_t steps_per_epoch = 1;
  double loss = 0.0;
  double images_per_second = 0.0;  // of all workers
  double exchange_share = 0.0;
  double input_share = 0.0;
  double seconds_left = 0.0;  // of the training
};

// "epoch 3/12 [====    ] 40/250  loss 0.0812  5123 images/s  exchange 12 %  0:41 left", with
// "input 6 %" behind the exchange if training waits for batches 5 % of the time: at most
// `columns` wide; the bar takes what the rest leaves, and goes first.
std::string progress_line(const TrainingProgress& progress, std::size_t columns);

struct ConsoleOptions {
  std::uint64_t epochs = 1;
  std::uint64_t last_step = 1;       // one past it
  std::function<bool()> quiet = {};  // whether to print nothing; empty: print
  bool bar = false;                  // standard error is a terminal
};

// Lines go to standard output, the bar to standard error.
class Console {
 public:
  explicit Console(ConsoleOptions options) : options_(std::move(options)) {}

  void step(const StepReport& report);
  void epoch(const EpochReport& report);

 private:
  bool is_quiet() const { return options_.quiet && options_.quiet(); }
  void clear_bar();

  ConsoleOptions options_;
  bool bar_shown_ = false;
  bool input_told_ = false;
  // Of a step, over the last some; 0: there was none.
  double seconds_ = 0.0;
  double exchange_seconds_ = 0.0;
  double input_seconds_ = 0.0;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace phub::train
