// Which of cuDNN's engines is the fastest for a graph, by trying. Pure but for what `measure` does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "worker/nn/cuda/engine_cache.h"
#include "worker/nn/cuda/engine_choice.h"

namespace phub::nn::cuda {

struct TuneOptions {
  std::size_t candidates = 10;  // of the heuristics' order
  std::size_t runs = 5;         // of which the median counts, after one that does not
  // What takes this many times the fastest so far in its first run is not run again.
  double hopeless = 3.0;
};

// Runs an engine once: microseconds, or why it cannot.
using TimedRun = std::function<Result<double>()>;

// `plan` readies an engine for being run, or says why it cannot. Engines that cannot be planned or
// run are left out, and others take their places. Errors: the first one's where none can.
Result<MeasuredEngine> find_fastest(
    std::span<const Candidate> candidates,
    const std::function<Result<TimedRun>(const EngineChoice& choice)>& plan,
    const TuneOptions& options = {});

}  // namespace phub::nn::cuda
