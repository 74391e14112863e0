// Norms of all keys and of whole keys through libphub and whole daemons, one and several: clipping
// and rule lamb.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/server/rule_jobs.h"
#include "tests/support/transports/tested_transports.h"

namespace phub::testing {

TEST_CASE(
    "lamb has the specification's bits over every transport, clipped too, and skips by votes") {
  const std::vector<RoundPlan> rounds = {{16.0F, 1}, {16.0F}, {16.0F}, {8.0F, 0}, {8.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{1, 2}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const bool clips : {false, true}) {
        ClientOptions options = servers.options(transport, 3);
        options.job.rule = RuleKind::kLamb;
        options.job.hyper.momentum = 0.0F;
        options.job.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
        options.job.clip_norm = clips ? 0.75F : 0.0F;
        options.job.loss_scale.kind = LossScaling::kVoted;
        const Status status = train_together(options, rounds, clips ? cores : std::vector{1U});
        INFO(transport << " " << clips << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("clipping by global norm has the specification's bits over all cores of all servers") {
  const std::vector<RoundPlan> rounds = {{1.0F}, {4.0F, 1}, {4.0F}, {2.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{3}, std::vector<std::uint32_t>{2, 2},
                            std::vector<std::uint32_t>{1, 2, 1}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const bool votes : {false, true}) {
        ClientOptions options = servers.options(transport, 3);
        options.job.rule = RuleKind::kAdamW;
        options.job.hyper.momentum = 0.0F;
        options.job.adaptive = {.epsilon = 1e-8};
        options.job.clip_norm = 0.75F;
        if (votes) options.job.loss_scale.kind = LossScaling::kVoted;
        const Status status =
            train_together(options, votes ? rounds : std::vector<RoundPlan>(4), cores);
        INFO(transport << " " << cores.size() << " " << votes << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("a round whose norm is not finite is left out by every server, and the next is made") {
  const std::vector<std::uint32_t> cores = {2, 2};
  const Servers servers(cores);
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 2);
    options.job.rule = RuleKind::kAdam;
    options.job.hyper.momentum = 0.0F;
    options.job.adaptive = {.epsilon = 1e-8};
    options.job.clip_norm = 0.75F;
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      RuleSpecification specification(layout_of(options, cores));
      fill(client, options.job.wire_type, noise(0));
      specification.initialise(noise(0));
      PHUB_RETURN_IF_ERROR(client.initialise());
      for (std::uint32_t round = 1; round < 5; ++round) {
        // One element of one worker; it lies on one server.
        const auto gradients = [&](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
          const bool is_wrong = round == 2 && worker == 1 && key == 4 && i == 7;
          return is_wrong ? std::numeric_limits<float>::quiet_NaN() : noise(round)(worker, key, i);
        };
        fill(client, options.job.wire_type, gradients);
        PHUB_RETURN_IF_ERROR(push_all(client));
        PHUB_RETURN_IF_ERROR(client.wait_all());
        specification.round(kHyper, 1.0F, gradients);
        PHUB_RETURN_IF_ERROR(compare(client, options.job.wire_type, specification));
        for (KeyId key = 0; key < kKeys.size(); ++key) {
          if (client.was_skipped(key) == (round == 2)) continue;
          return {Code::kDataLoss, "wrong word about key " + kKeys[key].name};
        }
      }
      return {};
    });
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
  }
}

TEST_CASE("a worker that is lost while others wait for the norm ends the job at every server") {
  const Servers servers({1, 1});
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 2);
    options.job.rule = RuleKind::kMomentum;
    options.job.clip_norm = 0.75F;
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      fill(client, options.job.wire_type, noise(0));
      PHUB_RETURN_IF_ERROR(client.initialise());
      PHUB_RETURN_IF_ERROR(push_all(client));
      // It has pushed all, and goes before it has told a norm, or where a thread tells it, after.
      if (client.worker_index() == 1) return {};
      const Status waited = client.wait_all();
      return waited.code() == Code::kDeadlineExceeded ? waited : Status();
    });
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
  }
}

}  // namespace phub::testing
