#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/tensors/safetensors.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/train/over_local.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/report/console.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

using testing::run;
using testing::small_session;

// Two rounds of one key with two parameters, by hand.
struct Rounds {
  explicit Rounds(RuleKind rule)
      : exchange(make_local_exchange(
            {{.name = "w", .elements = 2, .weight_decay = 0.5F}, {.name = "b", .elements = 1}},
            rule)) {
    exchange->gradient(0)[0] = 1.0F;
    exchange->gradient(0)[1] = -2.0F;
    exchange->gradient(1)[0] = 3.0F;
    REQUIRE(exchange->initialise().ok());
  }

  // One round with gradient {1, 2} and hyper-parameters of few bits: the arithmetic is exact.
  std::pair<float, float> round() {
    exchange->gradient(0)[0] = 1.0F;
    exchange->gradient(0)[1] = 2.0F;
    REQUIRE(exchange->set_hyper({.learning_rate = 0.25F, .momentum = 0.5F, .gradient_scale = 1.0F})
                .ok());
    REQUIRE(exchange->push(0).ok());
    REQUIRE(exchange->wait(0).ok());
    return {exchange->parameter(0)[0], exchange->parameter(0)[1]};
  }

  std::unique_ptr<GradientExchange> exchange;
};

TEST_CASE("A local exchange starts from the initial parameters") {
  Rounds rounds(RuleKind::kMomentum);
  REQUIRE(rounds.exchange->parameter(0)[1] == -2.0F);
  REQUIRE(rounds.exchange->parameter(1)[0] == 3.0F);
}

TEST_CASE("A local exchange applies stochastic gradient descent with decay") {
  Rounds rounds(RuleKind::kSgd);
  // w - 0.25 (g + 0.5 w)
  REQUIRE(rounds.round() == std::pair(0.625F, -2.25F));
  REQUIRE(rounds.round() == std::pair(0.296875F, -2.46875F));
  REQUIRE(rounds.exchange->parameter(1)[0] == 3.0F);  // was not pushed
}

TEST_CASE("A local exchange applies momentum with decay") {
  Rounds rounds(RuleKind::kMomentum);
  // v = 0.5 v + g + 0.5 w: 1.5 and 1, then 0.75 + 1.3125 = 2.0625 and 0.5 + 0.875 = 1.375
  REQUIRE(rounds.round() == std::pair(0.625F, -2.25F));
  REQUIRE(rounds.round() == std::pair(0.625F - 0.25F * 2.0625F, -2.25F - 0.25F * 1.375F));
}

TEST_CASE("A local exchange applies Nesterov's momentum with decay") {
  Rounds rounds(RuleKind::kNesterov);
  // v = 1.5 and 1; w -= 0.25 (g + 0.5 w + 0.5 v)
  REQUIRE(rounds.round() == std::pair(1.0F - 0.25F * 2.25F, -2.0F - 0.25F * 1.5F));
}

TEST_CASE("An epoch's line has the loss, the accuracies, the rate and the exchange's share") {
  const EpochReport report{.epoch = 2,
                           .steps = 10,
                           .loss = 0.08123,
                           .train_accuracy = 0.976,
                           .test_accuracy = 0.9812,
                           .seconds = 3.4,
                           .exchange_seconds = 0.41,
                           .images_per_second = 5123.4};
  REQUIRE(epoch_line(report, 12) ==
          "epoch  3/12  loss 0.0812  train  97.6 %  test 98.12 %    5123 images/s  "
          "exchange 0.41 s (12 %)");
}

TEST_CASE("An epoch's line tells what a cache had, and that input is the bound, with the cure") {
  EpochReport report{.epoch = 2, .steps = 10, .seconds = 4.0, .input_seconds = 1.0};
  report.reads = {.source = 30, .disk = 50, .memory = 20};
  REQUIRE_THAT(epoch_line(report, 12), Catch::EndsWith("  cache 70 %  input 1.00 s (25 %)"));
  REQUIRE_THAT(input_note(report), Catch::Contains("waited 25 % of epoch 3") &&
                                       Catch::Contains("data.threads") &&
                                       Catch::Contains("data.cache.memory_mib"));
  report.input_seconds = 0.7;
  REQUIRE(input_note(report).empty());
  REQUIRE(input_note(EpochReport{}).empty());
}

TEST_CASE("The bar has the rate, the exchange's share and the time that is left, and fits") {
  TrainingProgress progress{.epoch = 2,
                            .epochs = 12,
                            .steps_done = 125,
                            .steps_per_epoch = 250,
                            .loss = 0.08123,
                            .images_per_second = 5123.4,
                            .exchange_share = 0.118,
                            .seconds_left = 41.2};
  REQUIRE(progress_line(progress, 85) ==
          "epoch 3/12 [=====     ] 125/250  loss 0.0812  5123 images/s  exchange 12 %  0:41 left");
  progress.seconds_left = 3 * 3600 + 62;
  const std::string narrow = progress_line(progress, 70);
  REQUIRE(narrow.find('[') == std::string::npos);
  REQUIRE(narrow.size() == 70);
  const std::string wide = progress_line(progress, 500);
  REQUIRE_THAT(wide,
               Catch::Contains("3:01:02 left") && Catch::Contains(std::string(15, '=') + " "));
  progress.steps_done = 250;
  REQUIRE_THAT(progress_line(progress, 500), Catch::Contains("[" + std::string(30, '=') + "] 250"));
}

TEST_CASE("The same seed gives the same checkpoint, bit by bit, and another seed another") {
  const TemporaryDirectory directory;
  for (const char* model : {"lenet", "resnet20"}) {
    SessionOptions options = small_session();
    options.model = model;
    for (const char* name : {"a", "b", "c", "d"}) {
      options.checkpoint.path = directory.path / name;
      options.seed = *name == 'c' ? 2 : 1;
      options.data.mixup = *name == 'd' ? 0.4F : 0.0F;
      const auto result = run(options);
      REQUIRE(result);
      REQUIRE(result->next_step == 16);
    }
    REQUIRE(directory.read("a").size() > 1'000'000);
    REQUIRE(directory.read("a") == directory.read("b"));
    REQUIRE(directory.read("a") != directory.read("c"));
    REQUIRE(directory.read("a") != directory.read("d"));  // whose images are mixed
  }
}

namespace {
// A run to its end, and one that stopped after 11 steps: its options, which write "half".
SessionOptions whole_and_half(const TemporaryDirectory& directory, RuleKind rule = RuleKind::kSgd) {
  SessionOptions options = small_session();
  options.data.mixup = rule == RuleKind::kNesterov ? 0.4F : 0.0F;
  options.update.schedule.kind = ScheduleKind::kCosine;
  options.checkpoint.path = directory.path / "whole";
  REQUIRE(run(options, rule));
  options.checkpoint.path = directory.path / "half";
  const auto half = run(options, rule, 11);
  REQUIRE(half);
  REQUIRE(half->interrupted);
  REQUIRE(half->next_step == 11);
  return options;
}
}  // namespace

TEST_CASE("A run that was stopped and resumed ends like one that was not") {
  const TemporaryDirectory directory;
  const RuleKind rule =
      GENERATE(RuleKind::kSgd, RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kLars,
               RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad, RuleKind::kLamb);
  SessionOptions options = whole_and_half(directory, rule);
  options.checkpoint.resume = options.checkpoint.path;
  options.checkpoint.path = directory.path / "joined";
  const auto joined = run(options, rule);
  REQUIRE(joined);
  REQUIRE_FALSE(joined->interrupted);
  REQUIRE(directory.read("joined") == directory.read("whole"));
  REQUIRE(directory.read("joined.optimizer-16") == directory.read("whole.optimizer-16"));

  options.checkpoint.resume = directory.path / "whole";
  const auto finished = run(options, rule);
  REQUIRE_FALSE(finished);
  REQUIRE(finished.error().message().find("train.epochs") != std::string::npos);

  options.seed = 9;
  const auto other_seed = run(options, rule);
  REQUIRE_FALSE(other_seed);
  REQUIRE(other_seed.error().message().find("train.seed") != std::string::npos);
}

TEST_CASE("A resumed run without its momentum is refused, or starts with none when told so") {
  const TemporaryDirectory directory;
  SessionOptions options = whole_and_half(directory, RuleKind::kMomentum);
  options.checkpoint.resume = options.checkpoint.path;
  options.checkpoint.path = directory.path / "joined";
  std::filesystem::remove(directory.path / "half.optimizer-11");
  const auto refused = run(options);
  REQUIRE_FALSE(refused);
  REQUIRE_THAT(refused.error().message(), Catch::Contains("train.restart_momentum"));
  options.checkpoint.restart_momentum = true;
  REQUIRE(run(options));
  REQUIRE(directory.read("joined") != directory.read("whole"));
  const auto nothing_to_restart = run(options, RuleKind::kSgd);
  REQUIRE_FALSE(nothing_to_restart);
  REQUIRE_THAT(nothing_to_restart.error().message(), Catch::Contains("train.restart_momentum"));
}

TEST_CASE("The step limit ends a run, which is evaluated there") {
  SessionOptions options = small_session();
  options.max_steps = 3;
  const auto result = run(options);
  REQUIRE(result);
  REQUIRE(result->next_step == 3);
  REQUIRE_FALSE(result->interrupted);
  REQUIRE(result->test_accuracy >= 0.0);
  options.evaluate = false;
  REQUIRE(run(options)->test_accuracy < 0.0);
}

TEST_CASE("Synthetic images are learnt by both models") {
  for (const char* model : {"lenet", "resnet20"}) {
    SessionOptions options = small_session();
    options.model = model;
    options.data.shift_pixels = 0;
    options.update.schedule.learning_rate = options.model == "lenet" ? 1e-3F : 1e-2F;
    options.data.synthetic_images = 200;
    options.epochs = 5;
    const auto result = run(options);
    REQUIRE(result);
    INFO(model);
    REQUIRE(result->test_accuracy > 0.9);
  }
}

TEST_CASE("A loss that is not finite ends the run with the cure") {
  SessionOptions options = small_session();
  options.update.schedule.learning_rate = 1e30F;
  const auto result = run(options);
  REQUIRE_FALSE(result);
  REQUIRE(result.error().code() == Code::kAborted);
  REQUIRE(result.error().message().find("learning_rate") != std::string::npos);
}

TEST_CASE("A session that cannot work is refused before it joins, with the cure") {
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  std::string expected;
  SECTION("no such model") {
    options.model = "alexnut";
    expected = "lenet";
  }
  SECTION("no data") {
    options.data.format = DataFormat::kIdx;
    options.data.path = directory.path;
    expected = "data.path";
  }
  SECTION("a batch that is larger than the data set") {
    options.executor.batch = 65;
    expected = "choose a batch";
  }
  SECTION("a directory that does not exist") {
    options.report.metrics = directory.path / "none" / "m";
    expected = "does the directory exist?";
  }
  SECTION("a checkpoint that is not there") {
    options.checkpoint.resume = directory.path / "none";
    expected = "cannot open";
  }
  const auto result = run(options);
  REQUIRE_FALSE(result);
  INFO(result.error().to_string());
  REQUIRE(result.error().message().find(expected) != std::string::npos);
}

// Whoever asks a worker to stop just then must not be told that all is well.
TEST_CASE("A checkpoint that cannot be written within a training is a loss, as at its end") {
  const TemporaryDirectory directory;
  SessionOptions options = testing::small_session();
  const auto folder = directory.path / "models";
  std::filesystem::create_directory(folder);
  options.checkpoint.path = folder / "model";
  SECTION("of some steps") { options.checkpoint.every_steps = 1; }
  SECTION("of an epoch") {}
  SECTION("of the best model") { options.checkpoint.best = true; }
  const auto result = run_session(
      options,
      [](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
        return make_local_exchange(keys, RuleKind::kSgd, {}, {});
      },
      [&] {
        std::filesystem::remove_all(folder);
        return false;
      });
  REQUIRE_FALSE(result);
  CHECK(result.error().code() == Code::kDataLoss);
  CHECK_THAT(result.error().message(), Catch::Contains("models"));
}

// A local exchange that says it was restored from a snapshot.
class Restored final : public testing::OverLocal {
 public:
  Restored(const std::vector<KeySpec>& keys, std::uint64_t steps)
      : OverLocal(keys,
                  {.transport = "restored", .state_at = StateAt::kServers, .steps_before = steps}) {
  }
};

Result<SessionResult> run_restored(const SessionOptions& options, std::uint64_t steps) {
  return run_session(
      options,
      [&](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
        return std::unique_ptr<GradientExchange>(std::make_unique<Restored>(keys, steps));
      },
      [] { return false; });
}

TEST_CASE("A restored job goes on at its step: its learning rate, its images, its end") {
  const TemporaryDirectory directory;
  SessionOptions options = whole_and_half(directory);
  options.checkpoint.path = directory.path / "again";
  SECTION("with a checkpoint of the same step") {
    options.checkpoint.resume = directory.path / "half";
    REQUIRE(run_restored(options, 11));
    REQUIRE(directory.read("again") == directory.read("whole"));
  }
  SECTION("without one") {
    const auto result = run_restored(options, 11);
    REQUIRE(result);
    REQUIRE(result->next_step == 16);
  }
  SECTION("a checkpoint of another step is refused") {
    options.checkpoint.resume = directory.path / "half";
    const auto result = run_restored(options, 12);
    REQUIRE_FALSE(result);
    REQUIRE_THAT(result.error().message(), Catch::Contains("at step 11") &&
                                               Catch::Contains("at step 12: leave train.resume"));
  }
  SECTION("beyond the end there is nothing to do") {
    const auto result = run_restored(options, 16);
    REQUIRE_FALSE(result);
    REQUIRE_THAT(result.error().message(), Catch::Contains("raise train.epochs"));
  }
}

TEST_CASE("Metrics are JSON lines from start to end") {
  const TemporaryDirectory directory;
  SessionOptions options = small_session();
  options.report.metrics = directory.path / "m";
  REQUIRE(run(options));
  std::istringstream lines(directory.read("m"));
  std::string events;
  double last_loss = 0.0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    REQUIRE(json.is_object());
    const auto event = json["event"].get<std::string>();
    events += event == "step" ? "." : event;
    if (event == "epoch") {
      last_loss = json["loss"].get<double>();
      REQUIRE(json["test_accuracy"].get<double>() >= 0.0);
      REQUIRE(json["steps"] == 8);
    }
  }
  REQUIRE(events == "start........epoch........epochend");
  REQUIRE(last_loss > 0.0);
}

}  // namespace
}  // namespace phub::train
