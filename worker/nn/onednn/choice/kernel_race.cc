#include "worker/nn/onednn/choice/kernel_race.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace phub::nn::onednn {
namespace {

constexpr double kClearRatio = 0.97;
constexpr double kMicroseconds = 1e6;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A racer on its way.
struct RunningRacer {
  const Racer* racer = nullptr;
  double trial = std::numeric_limits<double>::infinity();  // seconds of a run
  std::size_t times = 1;                                   // runs of a turn
  bool is_out = false;
  std::vector<double> rounds;  // seconds of a run

  Status turn() {
    PHUB_ASSIGN_OR_RETURN(const double all, racer->seconds(times));
    rounds.push_back(all / static_cast<double>(times));
    return {};
  }
};

std::size_t times_for(double seconds, const RaceOptions& options) {
  if (seconds * static_cast<double>(options.times_max) <= options.seconds_of_a_turn) {
    return options.times_max;
  }
  return std::max<std::size_t>(
      1, static_cast<std::size_t>(std::lround(options.seconds_of_a_turn / seconds)));
}

// Seconds of a run without what interrupted it: the least of several, of one that is long anyway.
// The run before makes what is made lazily.
Result<double> trial_of(const Racer& racer, const RaceOptions& options) {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const double warm_up, racer.seconds(1));
  PHUB_ASSIGN_OR_RETURN(double least, racer.seconds(1));
  for (std::size_t i = 1; i < options.trials && least < options.seconds_of_a_long_run; ++i) {
    PHUB_ASSIGN_OR_RETURN(const double again, racer.seconds(1));
    least = std::min(least, again);
  }
  return least;
}

Status try_all(std::vector<RunningRacer>& lanes, const RaceOptions& options) {
  Status failed;
  double fastest = std::numeric_limits<double>::infinity();
  for (RunningRacer& lane : lanes) {
    const auto trial = trial_of(*lane.racer, options);
    lane.is_out = !trial;
    if (!trial && failed.ok()) failed = trial.error();
    if (!trial) continue;
    lane.trial = *trial;
    fastest = std::min(fastest, lane.trial);
  }
  if (std::isinf(fastest)) return failed;
  for (RunningRacer& lane : lanes) {
    lane.is_out |= &lane != &lanes.front() && lane.trial > options.hopeless * fastest;
    lane.times = times_for(lane.trial, options);
  }
  return {};
}

// In an order that turns from round to round. Who fails is out.
double run_round(std::vector<RunningRacer>& lanes, std::size_t round) {
  double seconds = 0.0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    RunningRacer& lane = lanes[(i + round) % lanes.size()];
    if (lane.is_out) continue;
    lane.is_out = !lane.turn().ok();
    if (!lane.is_out) seconds += lane.rounds.back() * static_cast<double>(lane.times);
  }
  return seconds;
}

}  // namespace

bool is_clearly_faster(std::span<const double> challenger, std::span<const double> champion) {
  std::vector<double> ratios;
  std::size_t below = 0;
  for (std::size_t i = 0; i < challenger.size(); ++i) {
    ratios.push_back(challenger[i] / champion[i]);
    if (ratios.back() < 1.0) ++below;
  }
  return 4 * below >= 3 * ratios.size() && median(std::move(ratios)) <= kClearRatio;
}

Result<RaceResult> race(std::span<const Racer> racers, const RaceOptions& options) {
  std::vector<RunningRacer> lanes;
  for (const Racer& racer : racers) lanes.push_back({.racer = &racer, .rounds = {}});
  PHUB_RETURN_IF_ERROR(try_all(lanes, options));
  const auto is_left = [](const RunningRacer& lane) { return !lane.is_out; };
  double seconds = 0.0;
  for (std::size_t round = 0; round < options.rounds_max; ++round) {
    if (std::count_if(lanes.begin(), lanes.end(), is_left) < 2) break;
    if (round >= options.rounds_min && seconds >= options.seconds_max) break;
    seconds += run_round(lanes, round);
  }
  RaceResult result;
  const RunningRacer* champion = nullptr;
  for (RunningRacer& lane : lanes) {
    const double of_a_run = lane.rounds.empty() ? lane.trial : median(lane.rounds);
    result.times.push_back({lane.racer->name, kMicroseconds * of_a_run});
    if (lane.is_out) continue;
    if (champion != nullptr && !is_clearly_faster(lane.rounds, champion->rounds)) continue;
    champion = &lane;
    result.winner = static_cast<std::size_t>(&lane - lanes.data());
  }
  if (champion == nullptr) return Status(Code::kInternal, "all implementations failed when run");
  return result;
}

}  // namespace phub::nn::onednn
