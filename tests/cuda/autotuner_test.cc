#include "worker/nn/cuda/autotuner.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

namespace phub::nn::cuda {
namespace {

// Engines by number, with the times of their runs; the last one is repeated.
struct Bench {
  std::map<std::int64_t, std::vector<double>> times;
  std::map<std::int64_t, std::size_t> runs = {};
  std::map<std::int64_t, Status> refused = {};

  Result<MeasuredEngine> fastest(const TuneOptions& options = {}) {
    std::vector<Candidate> candidates;
    for (const auto& [engine, all] : times) candidates.push_back({{engine, {{1, engine}}}});
    return find_fastest(
        candidates,
        [this](const EngineChoice& choice) -> Result<TimedRun> {
          const auto why = refused.find(choice.engine);
          if (why != refused.end()) return why->second;
          return TimedRun([this, engine = choice.engine]() -> Result<double> {
            const std::vector<double>& all = times[engine];
            const std::size_t run = runs[engine]++;
            const double time = run < all.size() ? all[run] : all.back();
            if (time < 0.0) return Status(Code::kInternal, "it failed while it ran");
            return time;
          });
        },
        options);
  }
};

TEST_CASE("The fastest engine is that of the least median, without its first run") {
  Bench bench{{{1, {1, 9, 9, 9, 9, 9}}, {2, {99, 8, 50, 7, 50, 7}}, {3, {5, 10, 10, 10, 1, 1}}}};
  const auto best = bench.fastest();
  REQUIRE(best);
  CHECK(best->choice.engine == 2);
  CHECK(best->choice.knobs.front().second == 2);
  CHECK(best->microseconds == 8.0);
}

TEST_CASE("Engines that cannot be planned or run are left out, and do not count") {
  Bench bench{{{1, {1}}, {2, {-1}}, {3, {5}}, {4, {4}}, {5, {3}}}};
  bench.refused[1] = Status(Code::kNotFound, "not for this");
  const auto best = bench.fastest({.candidates = 2});
  REQUIRE(best);
  CHECK(best->choice.engine == 4);
  CHECK(bench.runs.count(5) == 0);
}

TEST_CASE("What is hopelessly slow is run twice only") {
  Bench bench{{{1, {10}}, {2, {31}}, {3, {29}}}};
  REQUIRE(bench.fastest());
  CHECK(bench.runs[1] == 6);
  CHECK(bench.runs[2] == 2);
  CHECK(bench.runs[3] == 6);
}

TEST_CASE("Where no engine runs, the first one's reason is told") {
  Bench bench{{{1, {-1}}, {2, {1}}}};
  bench.refused[2] = Status(Code::kNotFound, "not for this");
  CHECK(bench.fastest().error().message() == "it failed while it ran");
  Bench none;
  CHECK(none.fastest().error().code() == Code::kNotFound);
}

}  // namespace
}  // namespace phub::nn::cuda
