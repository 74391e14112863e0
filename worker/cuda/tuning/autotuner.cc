#include "worker/cuda/tuning/autotuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace phub::nn::cuda {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::size_t launches_for(double microseconds, const TuneOptions& options) {
  if (microseconds <= 0.0) return options.launches_max;
  const double wanted = std::ceil(options.microseconds_of_a_run / microseconds);
  if (wanted >= static_cast<double>(options.launches_max)) return options.launches_max;
  return std::max(options.launches_min, static_cast<std::size_t>(wanted));
}

bool has_run(const FailedEngine& failed) { return failed.is_planned; }

}  // namespace

Result<double> time_of(const TimedRun& run, double fastest, const TuneOptions& options) {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_up, run(1));
  PHUB_ASSIGN_OR_RETURN(const double guess, run(1));
  const std::size_t launches = launches_for(guess, options);
  std::vector<double> times;
  for (std::size_t i = 0; i < options.runs; ++i) {
    PHUB_ASSIGN_OR_RETURN(const double all, run(launches));
    const double time = all / static_cast<double>(launches);
    times.push_back(time);
    if (i == 0 && time > options.hopeless * fastest) return time;
  }
  return median_of(std::move(times));
}

std::string Tuning::complaint() const {
  const auto ran = std::find_if(failed.begin(), failed.end(), has_run);
  if (ran == failed.end()) return {};
  const auto count = std::count_if(failed.begin(), failed.end(), has_run);
  return std::to_string(count) +
         " of its engines could be planned and failed when run, the first, " +
         std::to_string(ran->choice.engine) + ", with: " + ran->why.message();
}

Status Tuning::error() const {
  // What does not fit now may fit another time: nothing to be remembered.
  const auto no_room = std::find_if(failed.begin(), failed.end(), [](const FailedEngine& engine) {
    return engine.why.code() == Code::kResourceExhausted;
  });
  if (no_room != failed.end()) {
    return no_room->why.with_context("engine " + std::to_string(no_room->choice.engine));
  }
  const auto ran = std::find_if(failed.begin(), failed.end(), has_run);
  if (ran != failed.end()) {
    return ran->why.with_context("engine " + std::to_string(ran->choice.engine) +
                                 " was planned and failed when run");
  }
  if (failed.empty()) return {Code::kNotFound, "no engine of cuDNN takes it"};
  return {Code::kNotFound, "none of " + std::to_string(failed.size()) +
                               " engines of cuDNN can be planned, the first, " +
                               std::to_string(failed.front().choice.engine) +
                               ", because: " + failed.front().why.message()};
}

Tuning find_fastest(std::span<const EngineCandidate> candidates,
                    const std::function<Result<TimedRun>(const EngineChoice& choice)>& plan,
                    const TuneOptions& options) {
  Tuning tuning;
  std::size_t measured = 0;
  for (const EngineCandidate& candidate : candidates) {
    if (measured == options.candidates) break;
    const auto run = plan(candidate.choice);
    if (!run) {
      tuning.failed.push_back({candidate.choice, false, run.error()});
      continue;
    }
    const double fastest =
        tuning.best ? tuning.best->microseconds : std::numeric_limits<double>::infinity();
    const auto time = time_of(*run, fastest, options);
    if (!time) {
      tuning.failed.push_back({candidate.choice, true, time.error()});
      continue;
    }
    ++measured;
    if (*time < fastest) tuning.best = MeasuredEngine{candidate.choice, *time};
  }
  return tuning;
}

}  // namespace phub::nn::cuda
