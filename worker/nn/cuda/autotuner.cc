#include "worker/nn/cuda/autotuner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace phub::nn::cuda {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The median, or nothing more than the first run's time where that is hopeless.
Result<double> time_of(const TimedRun& run, double fastest, const TuneOptions& options) {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_up, run());
  std::vector<double> times;
  for (std::size_t i = 0; i < options.runs; ++i) {
    PHUB_ASSIGN_OR_RETURN(const double time, run());
    times.push_back(time);
    if (i == 0 && time > options.hopeless * fastest) return time;
  }
  return median_of(std::move(times));
}

}  // namespace

Result<MeasuredEngine> find_fastest(
    std::span<const Candidate> candidates,
    const std::function<Result<TimedRun>(const EngineChoice& choice)>& plan,
    const TuneOptions& options) {
  double fastest = std::numeric_limits<double>::infinity();
  std::optional<MeasuredEngine> best;
  Status first(Code::kNotFound, "no engine of cuDNN takes it");
  bool told = false;
  std::size_t measured = 0;
  for (const Candidate& candidate : candidates) {
    if (measured == options.candidates) break;
    const auto run = plan(candidate.choice);
    const auto time = run ? time_of(*run, fastest, options) : Result<double>(run.error());
    if (!time) {
      if (!told) first = time.error();
      told = true;
      continue;
    }
    ++measured;
    if (*time >= fastest) continue;
    fastest = *time;
    best = MeasuredEngine{candidate.choice, *time};
  }
  if (!best) return first;
  return *best;
}

}  // namespace phub::nn::cuda
