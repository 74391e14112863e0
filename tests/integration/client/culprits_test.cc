// Values that are not finite, through libphub and a whole daemon: whose they are is told by the
// server, push by push, or ends the job with it.
#include <grpcpp/create_channel.h>

#include <barrier>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <random>

#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint32_t kCulpritWorkers = 3;
const std::vector<KeySpec> kCulpritKeys = {
    {"bias", 30}, {"large", 40'000}, {"small", 900}, {"odd", 8193}};

ClientOptions watched(const TestServer& server, const std::string& transport, WatchValues watch) {
  return {.servers = {server.address()},
          .job = {.name = "watched",
                  .workers = kCulpritWorkers,
                  .rule = RuleKind::kMean,
                  .watch_values = watch},
          .transport = transport,
          .timeout = kHangGuard};
}

control::JobInfo inspected(const TestServer& server) {
  const auto admin = control::Admin::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  control::InspectJobRequest request;
  request.set_name("watched");
  control::InspectJobReply reply;
  return admin->InspectJob(&context, request, &reply).ok() ? reply.job() : control::JobInfo();
}

// One element of a push of one key.
struct Bad {
  KeyId key = 0;
  std::size_t element = 0;
  float value = 0.0F;
  const char* word = "";
};

Bad any(std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr std::pair<float, const char*> kValues[] = {
      {std::numeric_limits<float>::quiet_NaN(), "NaN"}, {kInfinity, "+inf"}, {-kInfinity, "-inf"}};
  const auto key = static_cast<KeyId>(random() % kCulpritKeys.size());
  const auto& [value, word] = kValues[random() % std::size(kValues)];
  return {key, random() % kCulpritKeys[key].elements, value, word};
}

Status push_round(Client& client, const std::optional<Bad>& bad) {
  for (auto key = static_cast<KeyId>(kCulpritKeys.size()); key-- > 0;) {
    for (float& value : client.gradient<float>(key)) value = 1.0F;
    if (bad && bad->key == key) client.gradient<float>(key)[bad->element] = bad->value;
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return client.wait_all();
}

// Of each worker at most one in a round, so that its last one is known.
struct Round {
  std::vector<std::optional<Bad>> bad;
};

std::vector<Round> make_rounds(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Round> rounds(count);
  for (Round& round : rounds) {
    for (std::uint32_t w = 0; w < kCulpritWorkers; ++w) {
      round.bad.push_back(random() % 8 == 0 ? std::nullopt : std::optional(any(random)));
    }
  }
  return rounds;
}

// Whether the server tells just what was pushed until the end of the round.
Status compare(const control::JobInfo& job, const std::vector<Round>& rounds, std::size_t until) {
  for (std::uint32_t w = 0; w < kCulpritWorkers; ++w) {
    std::uint64_t pushes = 0;
    std::size_t last = 0;
    for (std::size_t round = 0; round <= until; ++round) {
      if (!rounds[round].bad[w]) continue;
      ++pushes;
      last = round;
    }
    const control::WorkerValues& values = job.members(static_cast<int>(w)).values();
    const std::string who =
        "worker " + std::to_string(w) + " in round " + std::to_string(until + 1);
    if (values.pushes() != pushes) {
      return {Code::kDataLoss,
              who + " has " + std::to_string(values.pushes()) + " of " + std::to_string(pushes)};
    }
    if (pushes == 0) continue;
    const Bad& bad = *rounds[last].bad[w];
    const control::NotFinite& told = values.last();
    const bool is_right = told.key() == kCulpritKeys[bad.key].name &&
                          told.element() == bad.element && told.round() == last + 1 &&
                          told.value() == bad.word;
    if (!is_right) return {Code::kDataLoss, who + " is told as " + told.ShortDebugString()};
  }
  return {};
}

TEST_CASE("of a thousand bad values each is told with worker, key, element and round") {
  for (const std::string& transport : tested_transports()) {
    for (const bool in_order : {true, false}) {
      const auto server = std::move(*TestServer::start(2));
      ClientOptions options = watched(*server, transport, WatchValues::kName);
      options.job.deterministic = in_order;
      const std::vector<Round> rounds = make_rounds(200, in_order ? 1 : 2);
      std::barrier all(kCulpritWorkers);
      Status told;
      const Status status = run_workers(options, kCulpritKeys, [&](Client& client) -> Status {
        const std::uint32_t w = client.worker_index();
        Status own;
        for (std::size_t round = 0; round < rounds.size() && own.ok(); ++round) {
          own = push_round(client, rounds[round].bad[w]);
          all.arrive_and_wait();
          if (w == 0 && told.ok()) told = compare(inspected(*server), rounds, round);
          all.arrive_and_wait();
        }
        if (!own.ok()) all.arrive_and_drop();
        return own;
      });
      INFO(transport << " " << in_order << " " << status.message());
      CHECK(status.ok());
      INFO(told.message());
      CHECK(told.ok());
    }
  }
}

TEST_CASE("a job that fails with the first bad value tells every worker whose it is") {
  for (const std::string& transport : tested_transports()) {
    for (const LossScaling scaling : {LossScaling::kNone, LossScaling::kStatic}) {
      const auto server = std::move(*TestServer::start(2));
      ClientOptions options = watched(*server, transport, WatchValues::kFail);
      options.job.rule = RuleKind::kMomentum;
      options.job.hyper = {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.0F};
      options.job.loss_scale.kind = scaling;
      std::vector<std::string> errors(kCulpritWorkers);
      const Status status = run_workers(options, kCulpritKeys, [&](Client& client) -> Status {
        const std::uint32_t w = client.worker_index();
        for (KeyId key = 0; key < kCulpritKeys.size(); ++key) {
          for (float& value : client.gradient<float>(key)) value = 0.5F;
        }
        PHUB_RETURN_IF_ERROR(client.initialise());
        for (std::uint32_t round = 1;; ++round) {
          const bool is_bad = w == 1 && round == 5;
          const Bad bad = {1, 39'999, std::numeric_limits<float>::infinity(), "+inf"};
          const Status own = push_round(client, is_bad ? std::optional(bad) : std::nullopt);
          if (own.ok() && round < 10) continue;
          errors[w] = own.message();
          return {};
        }
      });
      INFO(transport << " " << status.message());
      CHECK(status.ok());
      for (const std::string& error : errors) {
        CHECK_THAT(error, Contains("worker 1") && Contains("pushed +inf in key \"large\"") &&
                              Contains("element 39999, in round 5") &&
                              Contains("watch_values is fail"));
      }
      const control::JobInfo job = inspected(*server);
      CHECK(job.state() == control::JOB_STATE_FAILED);
      CHECK(job.members(1).values().pushes() == 1);
      CHECK(job.members(0).values().pushes() == 0);
    }
  }
}

TEST_CASE("where workers vote their overflows are counted, and the job goes on") {
  const auto server = std::move(*TestServer::start(2));
  ClientOptions options = watched(*server, tested_transports().front(), WatchValues::kName);
  options.job.rule = RuleKind::kSgd;
  options.job.loss_scale.kind = LossScaling::kVoted;
  const Status status = run_workers(options, kCulpritKeys, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (std::uint32_t round = 1; round <= 6; ++round) {
      const bool is_bad = client.worker_index() == 2 && round % 3 == 0;
      for (KeyId key = 0; key < kCulpritKeys.size(); ++key) {
        const float value = is_bad && key == 2 ? std::numeric_limits<float>::infinity() : 1.0F;
        for (float& element : client.gradient<float>(key)) element = value;
        PHUB_RETURN_IF_ERROR(client.push(key));
      }
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 2.0F, .overflow = is_bad ? 1U : 0U}));
      PHUB_RETURN_IF_ERROR(client.wait_all());
    }
    return {};
  });
  INFO(status.message());
  REQUIRE(status.ok());
  const control::JobInfo job = inspected(*server);
  CHECK(job.statistics().rounds_skipped() == 2);
  CHECK(job.members(2).values().overflow_votes() == 2);
  CHECK(job.members(2).values().last().key() == "small");
  CHECK(job.members(2).values().last().round() == 6);
  CHECK_FALSE(job.members(0).has_values());
}

}  // namespace
}  // namespace phub::testing
