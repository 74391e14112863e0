// Client::add_keys: keys that come while a job runs, and what becomes of the job when they cannot.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

ClientOptions adding(const TestServer& server, const std::string& transport,
                     std::uint32_t workers) {
  return {.servers = {server.address()},
          .job = {.name = "grows", .workers = workers},
          .transport = transport,
          .timeout = testing::kHangGuard};
}

// An error where `status` does not say so: assertions are for the test's own thread.
Status says(const Status& status, const std::string& text) {
  if (!status.ok() && status.message().find(text) != std::string::npos) return {};
  return {Code::kInternal, "\"" + text + "\" is not in: " + status.to_string()};
}

Status check(bool holds, const std::string& what) {
  return holds ? Status() : Status(Code::kDataLoss, what);
}

void fill_key(Client& client, KeyId key, float value) {
  for (float& each : client.gradient<float>(key)) each = value;
}

Status push_keys(Client& client, KeyId keys, float base) {
  for (KeyId key = keys; key-- > 0;) {
    fill_key(client, key, base + static_cast<float>(client.worker_index() + key));
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return {};
}

Status check_sums(Client& client, KeyId keys, float base) {
  const auto n = static_cast<float>(client.workers());
  for (KeyId key = 0; key < keys; ++key) {
    const float expected = n * (base + static_cast<float>(key)) + n * (n - 1) / 2;
    for (const float value : client.parameter<float>(key)) {
      if (value != expected) return {Code::kDataLoss, "wrong sum of key " + std::to_string(key)};
    }
  }
  return {};
}

// Sums of three sets; the first key is under way while others are added.
Status grow(Client& client) {
  fill_key(client, 0, 1.0F);
  PHUB_RETURN_IF_ERROR(client.push(0));
  PHUB_RETURN_IF_ERROR(client.add_keys({{"c", 8193}, {"d", 1}}));
  const auto* const place = client.parameter_bytes(0).data();
  PHUB_RETURN_IF_ERROR(client.wait(0));
  PHUB_RETURN_IF_ERROR(client.add_keys({{"e", 100'000}}));
  for (int round = 0; round < 3; ++round) {
    const auto base = static_cast<float>(round);
    PHUB_RETURN_IF_ERROR(push_keys(client, 5, base));
    if (round == 0) PHUB_RETURN_IF_ERROR(client.wait_all());
    for (KeyId key = 0; key < 5 && round == 1; ++key) {
      // Each worker begins elsewhere: what it does not wait for goes on all the same.
      PHUB_RETURN_IF_ERROR(client.wait((key + client.worker_index()) % 5));
    }
    bool is_there = round != 2;
    while (!is_there) {
      PHUB_ASSIGN_OR_RETURN(is_there, client.wait_for(std::nullopt, milliseconds(1)));
    }
    PHUB_RETURN_IF_ERROR(check_sums(client, 5, base));
  }
  if (client.parameter_bytes(0).data() != place) return {Code::kDataLoss, "a key was moved"};
  return {};
}

}  // namespace

TEST_CASE("keys that are added are exchanged as those that were there, over every transport") {
  const auto server = std::move(*TestServer::start(2));
  const auto second = std::move(*TestServer::start(1));
  for (const std::string& transport : tested_transports()) {
    for (const std::uint32_t workers : {1U, 3U}) {
      ClientOptions options = adding(*server, transport, workers);
      options.servers.push_back(second->address());
      const Status status = run_workers(options, {{"a", 10}, {"b", 50'000}}, grow);
      INFO(transport << " " << workers << " " << status.to_string());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("added keys have first parameters and the rates that were said before they came") {
  const auto server = std::move(*TestServer::start(1));
  const auto work = [](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(client.initialise());
    PHUB_RETURN_IF_ERROR(client.set_hyper({.learning_rate = 0.5F, .gradient_scale = 1.0F}));
    PHUB_RETURN_IF_ERROR(client.add_keys({{"b", 10}}));
    PHUB_RETURN_IF_ERROR(says(client.push(1), "call initialise first"));
    fill_key(client, 1, client.worker_index() == 0 ? 8.0F : 99.0F);
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (const bool overflow : {false, true}) {
      fill_key(client, 0, 2.0F);
      fill_key(client, 1, 2.0F);
      PHUB_RETURN_IF_ERROR(client.push(0));
      PHUB_RETURN_IF_ERROR(says(client.vote({}), "1 are not pushed"));
      PHUB_RETURN_IF_ERROR(says(client.set_hyper({}), "wait for every push"));
      PHUB_RETURN_IF_ERROR(client.push(1));
      const bool against = overflow && client.worker_index() == 1;
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 1.0F, .overflow = against ? 1U : 0U}));
      PHUB_RETURN_IF_ERROR(client.wait_all());
      PHUB_RETURN_IF_ERROR(check(client.was_skipped(1) == overflow, "was_skipped"));
      PHUB_RETURN_IF_ERROR(check(client.parameter<float>(0)[3] == -2.0F, "a wrong parameter"));
      PHUB_RETURN_IF_ERROR(check(client.parameter<float>(1)[3] == 6.0F, "a wrong added one"));
    }
    return {};
  };
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = adding(*server, transport, 2);
    options.job.rule = RuleKind::kSgd;
    options.job.loss_scale.kind = LossScaling::kVoted;
    const Status status = run_workers(options, {{"a", 10}}, work);
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE("lists that differ are an error at every worker, which names the key") {
  const auto server = std::move(*TestServer::start(1));
  const Status status =
      run_workers(adding(*server, "shm", 3), {{"a", 10}}, [](Client& client) -> Status {
        const std::uint64_t elements = client.worker_index() == 1 ? 11 : 10;
        const Status refused = client.add_keys({{"b", 10}, {"c", elements}});
        PHUB_RETURN_IF_ERROR(says(refused, "keys[1] (\"c\") elements"));
        PHUB_RETURN_IF_ERROR(says(refused, "grows+1"));
        PHUB_RETURN_IF_ERROR(says(client.add_keys({{"d", 1}}), "has failed before"));
        // The keys that were there go on.
        fill_key(client, 0, 1.0F);
        PHUB_RETURN_IF_ERROR(client.push_pull(0));
        return check(client.parameter<float>(0)[0] == 3.0F, "a wrong sum");
      });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("who leaves instead of adding keys, or with added keys pushed by others, is named") {
  const auto server = std::move(*TestServer::start(1));
  for (const std::string& transport : tested_transports()) {
    for (const bool adds : {false, true}) {
      const Status status =
          run_workers(adding(*server, transport, 3), {{"a", 10}}, [&](Client& client) -> Status {
            const bool goes = client.worker_index() == 2;
            if (goes && !adds) return {};
            Status end = client.add_keys({{"b", 10}});
            if (goes) return end;
            if (adds) {
              PHUB_RETURN_IF_ERROR(end);
              PHUB_RETURN_IF_ERROR(client.push(1));
              end = client.wait(1);
              PHUB_RETURN_IF_ERROR(says(end, "job grows+1"));
            }
            return says(end, "worker 2");
          });
      INFO(transport << adds << status.to_string());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("sets of added keys are bounded, and their names are of one job") {
  const auto server = std::move(*TestServer::start(1));
  const Status status =
      run_workers(adding(*server, "shm", 1), {{"a", 1}}, [](Client& client) -> Status {
        CHECK_THAT(client.add_keys({{"a", 1}}).message(), Contains("key a is there already"));
        CHECK_THAT(client.add_keys({}).message(), Contains("no keys"));
        for (int set = 0; set < 32; ++set) {
          PHUB_RETURN_IF_ERROR(client.add_keys({{"b" + std::to_string(set), 1}}));
        }
        CHECK_THAT(client.add_keys({{"c", 1}}).message(), Contains("32 sets") && Contains("of 32"));
        CHECK_THAT(client.push(33).message(), Contains("key 33 does not exist: there are 33"));
        CHECK_THAT(client.snapshot().error().message(), Contains("keys were added"));
        return client.push_pull(32);
      });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("a job that cannot have keys added says why") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions clips = adding(*server, "shm", 1);
  clips.job.rule = RuleKind::kSgd;
  clips.job.clip_norm = 1.0F;
  ClientOptions quorum = adding(*server, "shm", 2);
  quorum.job.rule = RuleKind::kSgd;
  quorum.job.deterministic = false;
  quorum.job.rounds = {.quorum = 1, .patience_ms = 1000};
  CHECK_THAT((*Client::connect(clips))->add_keys({{"b", 1}}).message(), Contains("register_keys"));
  for (const auto& [options, named] :
       {std::pair(clips, "clip_norm"), std::pair(quorum, "quorum")}) {
    const Status status =
        run_workers(options, {{"a", 1}}, [&, name = named](Client& client) -> Status {
          const Status refused = client.add_keys({{"b", 1}});
          PHUB_RETURN_IF_ERROR(check(refused.code() == Code::kFailedPrecondition, "code"));
          return says(refused, name);
        });
    INFO(status.to_string());
    CHECK(status.ok());
  }
}

}  // namespace phub
