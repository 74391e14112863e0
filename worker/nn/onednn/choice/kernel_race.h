// Which of several implementations of one operation is the fastest, by running them in turn.
//
// The first is the favourite. Others take its place only if they are clearly faster: machines are
// shared, and a choice that noise makes would differ from run to run. Pure but for what `seconds`
// does; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/kernel_choice.h"

namespace phub::nn::onednn {

struct Racer {
  std::string name;
  // Runs the operation `times` times: seconds of all of them.
  std::function<Result<double>(std::size_t times)> seconds;
};

struct RaceOptions {
  std::size_t trials = 3;                // before the race; of runs that are long one is enough
  double seconds_of_a_long_run = 20e-3;  // interruptions are shorter
  std::size_t rounds_min = 7;
  std::size_t rounds_max = 25;
  double seconds_max = 0.5;  // after rounds_min no round begins later than this
  // A turn repeats what is quick until it takes about so long.
  double seconds_of_a_turn = 200e-6;
  std::size_t times_max = 64;
  // What takes this many times the fastest in its trial is left out, but for the favourite.
  double hopeless = 2.0;
};

struct RaceResult {
  std::size_t winner = 0;
  // One for each racer; of those that were left out the trial's.
  std::vector<KernelTime> times;
};

// Whether the times of `challenger` are clearly below those of `champion`, round by round: by 3 %
// in the median, and below in three quarters of the rounds. REQUIRES: as many of both, at least
// one.
bool is_clearly_faster(std::span<const double> challenger, std::span<const double> champion);

// Racers that fail are left out. Errors: the favourite's, if all fail. REQUIRES: at least one.
Result<RaceResult> race(std::span<const Racer> racers, const RaceOptions& options = {});

}  // namespace phub::nn::onednn
