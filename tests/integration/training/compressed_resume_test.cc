// Compressed training that is stopped and goes on: with what was kept back it has the bits of one
// that was not stopped.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/tensors/safetensors.h"
#include "tests/support/server/test_server.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "worker/train/checkpoints/kept_checkpoints.h"
#include "worker/train/exchange/local_steps.h"
#include "worker/train/exchange/residuals.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kResumedWorkers = 2;

struct Training {
  const TestServer& server;
  CompressOptions compress;
  std::filesystem::path checkpoint;
  std::uint64_t steps = 0;
  std::filesystem::path resume = {};
  std::uint64_t every_steps = 0;
  std::uint32_t last = 0;
  LossScalerOptions loss_scale = {};
  std::uint32_t local_steps = 0;  // 0: gradients are pushed
};

// Deltas of local_steps, or gradients.
Result<std::unique_ptr<GradientExchange>> exchange_of(const Training& training,
                                                      const ClientOptions& client,
                                                      const std::vector<KeySpec>& keys) {
  if (training.local_steps == 0) return make_remote_exchange(client, keys);
  PHUB_ASSIGN_OR_RETURN(auto outer, make_remote_exchange(client, outer_keys(keys)));
  return make_delta_exchange(
      {.own = make_local_exchange(keys, RuleKind::kSgd), .outer = std::move(outer)},
      {.schedule = {.local_steps = training.local_steps},
       .fragments = std::vector<std::uint32_t>(keys.size()),
       .hyper = {.learning_rate = 0.7F}});
}

// Returns what each worker was told.
std::vector<std::string> resume_together(const Training& training) {
  std::vector<Status> statuses(kResumedWorkers);
  std::vector<std::string> notes(kResumedWorkers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < kResumedWorkers; ++w) {
    threads.emplace_back([&, w] {
      SessionOptions options = testing::small_session();
      options.update.momentum = 0.0F;
      options.update.loss_scale = training.loss_scale;
      options.update.local_steps = std::max(1U, training.local_steps);
      options.epochs = 10;
      options.max_steps = training.steps;
      options.workers = kResumedWorkers;
      options.evaluate = false;
      options.checkpoint = {.path = training.checkpoint,
                            .every_steps = training.every_steps,
                            .last = training.last,
                            .resume = training.resume,
                            .restart_momentum = training.local_steps > 0};
      options.note = [&notes, w](std::string_view note) { notes[w] += note; };
      const ClientOptions client{.servers = {training.server.address()},
                                 .job = {.name = "resumed",
                                         .workers = kResumedWorkers,
                                         .rule = RuleKind::kSgd,
                                         .loss_scale = {.kind = training.loss_scale.kind}},
                                 .worker_index = static_cast<std::int32_t>(w),
                                 .compress = training.compress};
      const auto result = run_session(
          options,
          [&](const std::vector<KeySpec>& keys) { return exchange_of(training, client, keys); },
          [] { return false; });
      statuses[w] = result ? Status() : result.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    INFO(status.to_string());
    REQUIRE(status.ok());
  }
  return notes;
}

std::vector<NamedTensor> model_in(const std::filesystem::path& path) {
  const auto file = read_safetensors(path);
  REQUIRE(file);
  return file->tensors;
}

constexpr std::uint64_t kStop = 7;
constexpr std::uint64_t kEnd = 12;

// Compares a whole training with one that stopped after `stop` steps and went on.
void check_resumed(Training training, const std::filesystem::path& folder, std::uint64_t stop) {
  training.checkpoint = folder / "whole.safetensors";
  training.steps = kEnd;
  CHECK(resume_together(training) == std::vector<std::string>(kResumedWorkers));
  const auto whole = model_in(training.checkpoint);
  training.checkpoint = folder / "part.safetensors";
  training.steps = stop;
  resume_together(training);
  training.resume = training.checkpoint;
  training.checkpoint = folder / "resumed.safetensors";
  training.steps = kEnd;
  CHECK(resume_together(training) == std::vector<std::string>(kResumedWorkers));
  CHECK(model_in(training.checkpoint) == whole);
  for (std::uint32_t w = 0; w < kResumedWorkers; ++w) {
    REQUIRE(std::filesystem::remove(residual_path(training.resume, stop, w)));
  }
  resume_together(training);
  CHECK_FALSE(model_in(training.checkpoint) == whole);
}

}  // namespace

TEST_CASE("a compressed training that was resumed ends with the bits of one that was not") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt4);
  CAPTURE(name_of(encoding));
  const auto server = std::move(*TestServer::start(2));
  const TemporaryDirectory folder;
  Training training{.server = *server,
                    .compress = {.encoding = encoding,
                                 .density = 0.01F,
                                 .dense_below = 100,
                                 .momentum = 0.5F,
                                 .warm_up_rounds = 10},
                    .checkpoint = folder.path / "whole.safetensors",
                    .steps = kEnd};
  CHECK(resume_together(training) == std::vector<std::string>(kResumedWorkers));
  const auto whole = model_in(training.checkpoint);

  training.checkpoint = folder.path / "part.safetensors";
  training.steps = kStop;
  resume_together(training);
  CHECK_FALSE(model_in(training.checkpoint) == whole);
  for (std::uint32_t w = 0; w < kResumedWorkers; ++w) {
    CHECK(std::filesystem::exists(residual_path(training.checkpoint, kStop, w)));
  }
  training.resume = training.checkpoint;
  training.steps = kEnd;
  training.checkpoint = folder.path / "resumed.safetensors";
  CHECK(resume_together(training) == std::vector<std::string>(kResumedWorkers));
  CHECK(model_in(training.checkpoint) == whole);

  // As a checkpoint of another program or an older one is: it goes on, and says without what.
  std::filesystem::remove(residual_path(training.resume, kStop, 1));
  const auto notes = resume_together(training);
  CHECK(notes[0].empty());
  CHECK_THAT(notes[1], Catch::Contains("train.resume: no ") && Catch::Contains("worker-1") &&
                           Catch::Contains("without what was kept back"));
  CHECK_FALSE(model_in(training.checkpoint) == whole);

  // The job had more workers than it has.
  std::filesystem::copy_file(residual_path(training.resume, kStop, 0),
                             residual_path(training.resume, kStop, kResumedWorkers));
  const auto told = resume_together(training);
  CHECK_THAT(told[0], Catch::Contains("the job has 2 workers now") && Catch::Contains("worker-2") &&
                          Catch::Contains("is dropped"));
}

// Scales are powers of two.
TEST_CASE("a loss scale that grows changes no bit of a compressed training, resumed or not") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt4);
  CAPTURE(name_of(encoding));
  const auto server = std::move(*TestServer::start(2));
  const TemporaryDirectory folder;
  Training training{.server = *server,
                    .compress = {.encoding = encoding, .density = 0.01F, .dense_below = 100},
                    .checkpoint = folder.path / "unscaled.safetensors",
                    .steps = kEnd};
  resume_together(training);
  const auto unscaled = model_in(training.checkpoint);
  training.loss_scale = {.kind = LossScaling::kVoted, .scale = 1024.0F, .growth_steps = 2};
  check_resumed(training, folder.path, kStop);
  training.checkpoint = folder.path / "scaled.safetensors";
  resume_together(training);
  CHECK(model_in(training.checkpoint) == unscaled);

  training.loss_scale = {};
  training.steps = kStop;
  resume_together(training);
  training.resume = training.checkpoint;
  training.loss_scale = {.kind = LossScaling::kVoted};
  training.steps = kEnd;
  CHECK_THAT(resume_together(training)[0], Catch::Contains("another kind of loss scale"));
}

TEST_CASE(
    "deltas in few bits or a few elements have a residual, which a resumed training has too") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  CAPTURE(name_of(encoding));
  const auto server = std::move(*TestServer::start(2));
  const TemporaryDirectory folder;
  const Training training{
      .server = *server,
      .compress = {.encoding = encoding, .density = 0.01F, .dense_below = 100, .warm_up_rounds = 2},
      .checkpoint = {},
      .local_steps = 4};
  check_resumed(training, folder.path, 8);
}

TEST_CASE("what was kept back for another checkpoint is left out, and its user is told") {
  const auto server = std::move(*TestServer::start(1));
  const TemporaryDirectory folder;
  Training training{.server = *server,
                    .compress = {.encoding = Encoding::kInt8, .dense_below = 100},
                    .checkpoint = folder.path / "one.safetensors",
                    .steps = 4};
  resume_together(training);
  training.checkpoint = folder.path / "other.safetensors";
  training.compress.encoding = Encoding::kInt4;
  resume_together(training);
  std::filesystem::copy_file(residual_path(folder.path / "one.safetensors", 4, 0),
                             residual_path(training.checkpoint, 4, 0),
                             std::filesystem::copy_options::overwrite_existing);
  training.resume = training.checkpoint;
  training.steps = 6;
  const auto notes = resume_together(training);
  CHECK_THAT(notes[0], Catch::Contains("is of other parameters"));
  CHECK(notes[1].empty());
}

TEST_CASE("a compressed training goes on from each of the checkpoints that stayed") {
  const auto server = std::move(*TestServer::start(1));
  const TemporaryDirectory folder;
  Training training{.server = *server,
                    .compress = {.encoding = Encoding::kInt4, .dense_below = 100},
                    .checkpoint = folder.path / "model.safetensors",
                    .steps = 8,
                    .every_steps = 2,
                    .last = 4};
  resume_together(training);
  const auto whole = model_in(training.checkpoint);
  for (const std::uint64_t step : {2U, 4U, 6U}) {
    CAPTURE(step);
    Training rest = training;
    rest.resume = step_path(training.checkpoint, step);
    rest.checkpoint = folder.path / "rest.safetensors";
    rest.every_steps = 0;
    CHECK(resume_together(rest) == std::vector<std::string>(kResumedWorkers));
    CHECK(model_in(rest.checkpoint) == whole);
  }
}

TEST_CASE("of what is kept back the files of the last two checkpoints stay") {
  const auto server = std::move(*TestServer::start(1));
  const TemporaryDirectory folder;
  const Training training{.server = *server,
                          .compress = {.encoding = Encoding::kSparse, .dense_below = 100},
                          .checkpoint = folder.path / "m.safetensors",
                          .steps = 8,
                          .every_steps = 2};
  resume_together(training);
  for (std::uint32_t w = 0; w < kResumedWorkers; ++w) {
    for (const std::uint64_t step : {2U, 4U, 6U, 8U}) {
      CHECK(std::filesystem::exists(residual_path(training.checkpoint, step, w)) == (step >= 6));
    }
  }
}

TEST_CASE("a training that is not compressed keeps nothing back") {
  const auto server = std::move(*TestServer::start(1));
  const TemporaryDirectory folder;
  const Training training{
      .server = *server, .compress = {}, .checkpoint = folder.path / "m.safetensors", .steps = 2};
  resume_together(training);
  CHECK_FALSE(std::filesystem::exists(residual_path(training.checkpoint, 2, 0)));
}

}  // namespace phub::train
