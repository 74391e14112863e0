// Which of cuDNN's engines is the fastest for a graph, by trying. Pure but for what `measure` does.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/tuning/engine_cache.h"
#include "worker/cuda/tuning/engine_choice.h"

namespace phub::nn::cuda {

struct TuneOptions {
  std::size_t candidates = 10;  // of the heuristics' order
  std::size_t runs = 5;         // of which the median counts, after one that does not
  // A run queues its work so often that it takes about so long on the device, within these bounds:
  // what the host needs to queue the first one then counts for little.
  double microseconds_of_a_run = 2000.0;
  std::size_t launches_min = 4;
  std::size_t launches_max = 64;
  // What takes this many times the fastest so far in its first run is not run again.
  double hopeless = 3.0;
};

// Queues its work `launches` times and waits: microseconds of all of them, or why it cannot.
using TimedRun = std::function<Result<double>(std::size_t launches)>;

// Microseconds of one launch: the median of options.runs. What takes more than options.hopeless
// times `fastest` in its first run is run once only.
Result<double> time_of(const TimedRun& run, double fastest, const TuneOptions& options = {});

// An engine that ran, or was planned, in vain.
struct FailedEngine {
  EngineChoice choice;
  bool is_planned = false;  // then it failed when it ran, which it should not
  Status why;
};

struct Tuning {
  std::optional<MeasuredEngine> best;
  std::vector<FailedEngine> failed;

  // Of failures while running, one sentence; empty if there were none.
  std::string complaint() const;
  // Why there is no best: kNotFound where no engine could be planned; a failed run's own code.
  Status error() const;
};

// `plan` readies an engine for being run, or says why it cannot. Engines that cannot be planned or
// run are left out, and others take their places.
Tuning find_fastest(std::span<const EngineCandidate> candidates,
                    const std::function<Result<TimedRun>(const EngineChoice& choice)>& plan,
                    const TuneOptions& options = {});

}  // namespace phub::nn::cuda
