#include "worker/cuda/tuning/autotuner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

namespace phub::nn::cuda {
namespace {

// Engines by number, with the times of a launch in each run; the last one is repeated. The host
// needs `queueing` for the first launch of a run.
struct Bench {
  std::map<std::int64_t, std::vector<double>> times;
  double queueing = 0.0;
  std::map<std::int64_t, std::size_t> runs = {};
  std::map<std::int64_t, std::size_t> launches = {};
  std::map<std::int64_t, Status> refused = {};

  Tuning fastest(const TuneOptions& options = {}) {
    std::vector<EngineCandidate> candidates;
    for (const auto& [engine, all] : times) candidates.push_back({{engine, {{1, engine}}}});
    return find_fastest(
        candidates,
        [this](const EngineChoice& choice) -> Result<TimedRun> {
          const auto why = refused.find(choice.engine);
          if (why != refused.end()) return why->second;
          return TimedRun([this, engine = choice.engine](std::size_t count) -> Result<double> {
            const std::vector<double>& all = times[engine];
            const std::size_t run = runs[engine]++;
            launches[engine] = std::max(launches[engine], count);
            const double time = run < all.size() ? all[run] : all.back();
            if (time < 0.0) return Status(Code::kInternal, "it failed while it ran");
            return queueing + time * static_cast<double>(count);
          });
        },
        options);
  }
};

// The first two runs of each warm up and guess.
TEST_CASE("The fastest engine is that of the least median, without its first runs") {
  Bench bench{
      {{1, {1, 1, 9, 9, 9, 9, 9}}, {2, {99, 8, 8, 50, 7, 50, 7}}, {3, {5, 5, 10, 10, 10, 1, 1}}}};
  const Tuning tuning = bench.fastest();
  REQUIRE(tuning.best);
  CHECK(tuning.best->choice.engine == 2);
  CHECK(tuning.best->choice.knobs.front().second == 2);
  CHECK(tuning.best->microseconds == 8.0);
  CHECK(tuning.failed.empty());
  CHECK(tuning.complaint().empty());
}

TEST_CASE("Short kernels are launched often in a run, so that the host's time hardly counts") {
  // With one launch to a run the host's 20 microseconds would be most of it.
  Bench bench{{{1, {5.0}}, {2, {4.5}}, {3, {5'000.0}}}, 20.0};
  const Tuning tuning = bench.fastest({.hopeless = 1e9});
  REQUIRE(tuning.best);
  CHECK(tuning.best->choice.engine == 2);
  CHECK(tuning.best->microseconds < 4.5 * 1.1);
  CHECK(bench.launches[1] == TuneOptions{}.launches_max);
  CHECK(bench.launches[3] == TuneOptions{}.launches_min);
}

TEST_CASE("Engines that cannot be planned or run are left out, do not count, and are told") {
  Bench bench{{{1, {1}}, {2, {-1}}, {3, {5}}, {4, {4}}, {5, {3}}}};
  bench.refused[1] = Status(Code::kNotFound, "not for this");
  const Tuning tuning = bench.fastest({.candidates = 2});
  REQUIRE(tuning.best);
  CHECK(tuning.best->choice.engine == 4);
  CHECK(bench.runs.count(5) == 0);
  REQUIRE(tuning.failed.size() == 2);
  CHECK_FALSE(tuning.failed[0].is_planned);
  CHECK(tuning.failed[1].is_planned);
  CHECK_THAT(tuning.complaint(),
             Catch::Contains("the first, 2,") && Catch::Contains("it failed while it ran"));
}

TEST_CASE("What is hopelessly slow is measured once only") {
  Bench bench{{{1, {10}}, {2, {31}}, {3, {29}}}};
  REQUIRE(bench.fastest().best);
  CHECK(bench.runs[1] == 7);
  CHECK(bench.runs[2] == 3);
  CHECK(bench.runs[3] == 7);
}

TEST_CASE("Where no engine runs, a failed run is not told as a lack of engines") {
  Bench bench{{{1, {1}}, {2, {-1}}}};
  bench.refused[1] = Status(Code::kNotFound, "not for this");
  const Tuning failed = bench.fastest();
  CHECK_FALSE(failed.best);
  CHECK(failed.error().code() == Code::kInternal);
  CHECK_THAT(failed.error().message(),
             Catch::Contains("engine 2") && Catch::Contains("it failed while it ran"));
  bench.times.erase(2);
  const Status unplanned = bench.fastest().error();
  CHECK(unplanned.code() == Code::kNotFound);
  CHECK_THAT(unplanned.message(), Catch::Contains("none of 1") && Catch::Contains("not for this"));
  // What another process leaves no room for is no property of the engines.
  bench.refused[1] = Status(Code::kResourceExhausted, "out of memory");
  CHECK(bench.fastest().error().code() == Code::kResourceExhausted);
  Bench none;
  CHECK(none.fastest().error().code() == Code::kNotFound);
}

}  // namespace
}  // namespace phub::nn::cuda
