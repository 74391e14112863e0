// Training through a server with an fp16 wire and a dynamic loss scale that starts far too high.
#include <catch2/catch.hpp>
#include <thread>

#include "common/tensors/safetensors.h"
#include "tests/support/server/test_server.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kWorkers = 2;

struct Outcome {
  Status status;
  double accuracy = -1.0;
};

// The workers of one job, each with a thread, a checkpoint and metrics of its own.
std::vector<Outcome> train_together(const TestServer& server, const std::string& transport,
                                    RuleKind rule, const std::filesystem::path& folder) {
  const SessionOptions base{
      .executor = {.batch = 4},
      .data = {.format = DataFormat::kSynthetic, .synthetic_images = 200},
      .update = {.exclude_bias_from_lars = rule == RuleKind::kLars,
                 .loss_scale = {.kind = LossScaling::kVoted,
                                .scale = 16'777'216.0F,
                                .growth_steps = 20},
                 .label_smoothing = 0.05F,
                 .schedule = {.learning_rate = rule == RuleKind::kLars ? 0.01F : 2e-3F,
                              .warmup_steps = 5}},
      .epochs = 6,
      .workers = kWorkers};
  std::vector<Outcome> outcomes(kWorkers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      SessionOptions options = base;
      if (w == 0) options.checkpoint.path = folder / "checkpoint";
      options.report.metrics = folder / ("metrics" + std::to_string(w));
      ClientOptions client;
      client.servers = {server.address()};
      client.job.name = "mixed";
      client.job.workers = kWorkers;
      client.worker_index = static_cast<std::int32_t>(w);
      client.transport = transport;
      client.job.wire_type = DataType::kFloat16;
      client.job.rule = rule;
      if (rule == RuleKind::kLars) client.job.lars.coefficient = 1.0F;
      client.job.loss_scale.kind = LossScaling::kVoted;
      const auto result = run_session(
          options,
          [&](const std::vector<KeySpec>& keys) { return make_remote_exchange(client, keys); },
          [] { return false; });
      outcomes[w].status = result ? Status() : result.error();
      if (result) outcomes[w].accuracy = result->test_accuracy;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// The word after `"name":` in the last line that has it.
double last_number(const std::string& text, const std::string& name) {
  const std::string mark = "\"" + name + "\":";
  const std::size_t at = text.rfind(mark);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + mark.size()));
}

}  // namespace

TEST_CASE("two workers find a dynamic scale together, skip the same steps, and learn") {
  const auto server = std::move(*TestServer::start(2));
  for (const std::string& transport : tested_transports()) {
    for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kLars}) {
      CAPTURE(transport, name_of(rule));
      const TemporaryDirectory folder;
      const auto outcomes = train_together(*server, transport, rule, folder.path);
      for (const Outcome& outcome : outcomes) {
        INFO(outcome.status.to_string());
        REQUIRE(outcome.status.ok());
      }
      CHECK(outcomes[0].accuracy > 0.9);
      const std::string first = folder.read("metrics0");
      const std::string second = folder.read("metrics1");
      const double skipped = last_number(first, "skipped_steps");
      CHECK(skipped >= 3);   // from 2^24 down to what fp16 holds
      CHECK(skipped < 100);  // of 150 steps
      CHECK(last_number(second, "skipped_steps") == skipped);
      CHECK(last_number(first, "loss_scale") == last_number(second, "loss_scale"));
      CHECK(last_number(first, "loss_scale") < 16'777'216.0);
    }
  }
}

}  // namespace phub::train
