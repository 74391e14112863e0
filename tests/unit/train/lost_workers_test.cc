// A run whose job goes on without some of its workers: what is counted, said and saved.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/train/over_local.h"
#include "worker/train/report/loss_lines.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

using testing::small_session;
using LostWorkers = std::vector<std::uint32_t>;

// A local exchange that says it has others, some of whom are lost with the push of a step.
class Thinned final : public testing::OverLocal {
 public:
  struct Loss {
    std::uint64_t step = 0;
    LostWorkers lost = {};
  };

  Thinned(const std::vector<KeySpec>& keys, ExchangeFacts facts, Loss loss)
      : OverLocal(keys, std::move(facts)), loss_(std::move(loss)) {}
  Status end_step(float /*loss_scale*/) override {
    ++steps_;
    return {};
  }
  LostWorkers workers_lost() const override {
    return steps_ > loss_.step ? loss_.lost : LostWorkers();
  }

 private:
  Loss loss_;
  std::uint64_t steps_ = 0;
};

// Racks a and b have two workers each. There are 16 steps, eight in an epoch.
struct ThinnedRun {
  Result<SessionResult> operator()(std::uint32_t worker, const Thinned::Loss& loss) {
    options.workers = 4;
    options.executor.batch = 2;
    options.max_steps = 16;
    options.report.metrics = directory.path / "metrics";
    options.report.print = ReportOptions::Print::kFirstWorker;
    options.note = [this](std::string_view note) { notes.emplace_back(note); };
    facts.worker_index = worker;
    return run_session(
        options,
        [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
          return std::unique_ptr<GradientExchange>(std::make_unique<Thinned>(keys, facts, loss));
        },
        [] { return false; });
  }
  // All workers' in each epoch.
  std::vector<double> images() const {
    std::vector<double> all;
    std::istringstream lines(directory.read("metrics"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json["event"] != "epoch") continue;
      all.push_back(json["images_per_second"].get<double>() * json["seconds"].get<double>());
    }
    return all;
  }

  TemporaryDirectory directory;
  SessionOptions options = small_session();
  ExchangeFacts facts{.workers = 4, .racks = {{"a", 2}, {"b", 2}}, .transport = "thin"};
  std::vector<std::string> notes;
};

TEST_CASE("images per second are of the workers that the job still has") {
  ThinnedRun run;
  SECTION("each with a batch of two") {
    REQUIRE(run(0, {.step = 7, .lost = {2, 3}}));
    const auto images = run.images();
    REQUIRE(images.size() == 2);
    CHECK(images[0] == Approx(7 * 8 + 4));
    CHECK(images[1] == Approx(8 * 4));
  }
  SECTION("of which the lost ones had larger batches") {
    run.options.part = {.global = 8, .first = 0};
    run.options.batches = {2, 1, 2, 3};
    REQUIRE(run(0, {.step = 0, .lost = {2, 3}}));
    CHECK(run.images().at(0) == Approx(8 * 3));
  }
}

TEST_CASE("the worker that prints names a lost rack once, the others say nothing") {
  ThinnedRun run;
  SECTION("worker 0") {
    REQUIRE(run(0, {.step = 3, .lost = {2, 3}}));
    REQUIRE(run.notes.size() == 1);
    CHECK_THAT(run.notes[0], Catch::StartsWith("rack b was lost"));
  }
  SECTION("worker 1") {
    REQUIRE(run(1, {.step = 3, .lost = {2, 3}}));
    CHECK(run.notes.empty());
  }
}

TEST_CASE("the lowest worker that was not lost evaluates and saves") {
  ThinnedRun run;
  run.options.checkpoint.path = run.directory.path / "model";
  const auto exists = [&] { return std::filesystem::exists(run.options.checkpoint.path); };
  SECTION("not worker 0, whose rack is lost, but the first of the other rack") {
    const auto result = run(2, {.step = 3, .lost = {0, 1}});
    REQUIRE(result);
    CHECK(result->test_accuracy >= 0.0);
    CHECK(exists());
    REQUIRE(run.notes.size() == 2);
    CHECK_THAT(run.notes[0], Catch::StartsWith("rack a was lost"));
    CHECK_THAT(run.notes[1], Catch::Contains("this worker evaluates") &&
                                 Catch::Contains(run.options.checkpoint.path.string()));
  }
  SECTION("or the second one, where that is lost too") {
    REQUIRE(run(3, {.step = 3, .lost = {0, 1, 2}}));
    CHECK(exists());
  }
  SECTION("the others do neither") {
    const auto result = run(3, {.step = 3, .lost = {0, 1}});
    REQUIRE(result);
    CHECK(result->test_accuracy < 0.0);
    CHECK_FALSE(exists());
    CHECK(run.notes.empty());
  }
  SECTION("with no checkpoint it says how to save") {
    run.options.checkpoint.path.clear();
    REQUIRE(run(2, {.step = 3, .lost = {0, 1}}));
    REQUIRE(run.notes.size() == 2);
    CHECK_THAT(run.notes[1], Catch::Contains("phubctl snapshot"));
  }
}

TEST_CASE("a worker that may come to save has a place for the checkpoint from the start") {
  ThinnedRun run;
  run.options.checkpoint.path = run.directory.path / "none" / "model";
  run.facts.may_lead = true;
  const auto result = run(2, {.step = 100, .lost = {}});
  REQUIRE_FALSE(result);
  CHECK_THAT(result.error().message(), Catch::Contains("cannot write in"));
}

TEST_CASE("lines about losses name whole racks, single workers, and each once") {
  LossLines losses({{"a", 2}, {"b", 2}, {"c", 1}});
  CHECK(losses.look({}).empty());
  auto lines = losses.look({1, 2, 3});
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::StartsWith("rack b was lost"));
  CHECK_THAT(lines[1], Catch::StartsWith("worker 1 was lost"));
  CHECK(losses.look({1, 2, 3}).empty());
  lines = losses.look({1, 2, 3, 4});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::StartsWith("rack c was lost"));
  lines = LossLines({}).look({5});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::StartsWith("worker 5 was lost"));
}

}  // namespace
}  // namespace phub::train
