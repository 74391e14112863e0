// Rule lars and loss scale through libphub and whole daemons: the specification's bits at every
// worker, and what becomes of workers that break the protocol.
#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "tests/support/server/rule_jobs.h"
#include "tests/support/transports/tested_transports.h"

namespace phub::testing {

TEST_CASE("lars has the specification's bits over every transport, with one and two servers") {
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{1, 2}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        ClientOptions options = servers.options(transport, 3);
        options.job.rule = RuleKind::kLars;
        options.job.lars = {.coefficient = 0.05F, .epsilon = 1e-4F};
        options.job.wire_type = type;
        const Status status = train_together(options, std::vector<RoundPlan>(4));
        INFO(transport << " " << name_of(type) << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("adaptive rules have the specification's bits over every transport, and skip by votes") {
  const std::vector<RoundPlan> rounds = {{16.0F, 1}, {16.0F}, {16.0F}, {8.0F, 0}, {8.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{1, 2}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const RuleKind rule : {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad}) {
        ClientOptions options = servers.options(transport, 3);
        options.job.rule = rule;
        options.job.hyper.momentum = 0.0F;
        options.job.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
        if (!has_betas(rule)) options.job.adaptive = {.epsilon = 1e-6};
        options.job.loss_scale.kind = LossScaling::kVoted;
        const Status status = train_together(options, rounds);
        INFO(transport << " " << name_of(rule) << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("a vote skips a round on every core of every server, or on none, over every transport") {
  const std::vector<RoundPlan> rounds = {{16.0F}, {32.0F, 2}, {16.0F}, {16.0F, 0}, {8.0F}, {8.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{2, 1}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kLars}) {
        ClientOptions options = servers.options(transport, 3);
        options.job.rule = rule;
        options.job.wire_type = DataType::kFloat16;
        options.job.loss_scale.kind = LossScaling::kVoted;
        const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
          PHUB_RETURN_IF_ERROR(train(client, options, rounds));
          if (client.worker_index() != 0) return {};
          for (std::size_t server = 0; server < cores.size(); ++server) {
            const auto job = servers.job(server);
            const bool right = job && job->statistics().rounds_skipped() == 2 &&
                               job->statistics().updates_skipped() == 0;
            if (!right) return {Code::kInternal, "wrong counts of what was skipped"};
          }
          return {};
        });
        INFO(transport << " " << name_of(rule) << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("more cores than the job has chunks do not wait for votes") {
  const Servers servers({4});
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 2);
    options.job.rule = RuleKind::kSgd;
    options.job.hyper.momentum = 0.0F;
    options.job.loss_scale.kind = LossScaling::kVoted;
    const Status status = run_workers(options, {{"w", 100}}, [](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(client.initialise());
      for (int round = 0; round < 3; ++round) {
        PHUB_RETURN_IF_ERROR(client.push(0));
        PHUB_RETURN_IF_ERROR(client.vote({}));
        PHUB_RETURN_IF_ERROR(client.wait(0));
      }
      return {};
    });
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE("with a static scale what is not finite is left out and said, and the rest is updated") {
  const Servers servers({2});
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 2);
    options.job.rule = RuleKind::kMomentum;
    options.job.wire_type = DataType::kFloat16;
    options.job.loss_scale = {LossScaling::kStatic, 128.0F};
    const auto broken = [](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      return worker == 1 && key == 2 && i == 70'000 ? 1e9F : noise(1, 128.0F)(worker, key, i);
    };
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      RuleSpecification specification(layout_of(options));
      fill(client, options.job.wire_type, noise(0));
      specification.initialise(noise(0));
      PHUB_RETURN_IF_ERROR(client.initialise());
      fill(client, options.job.wire_type, broken);
      PHUB_RETURN_IF_ERROR(push_all(client));
      PHUB_RETURN_IF_ERROR(client.wait_all());
      if (specification.round(kHyper, 128.0F, broken) != 1) return {Code::kInternal, "the test"};
      PHUB_RETURN_IF_ERROR(compare(client, options.job.wire_type, specification));
      const bool right = client.was_skipped(2) && !client.was_skipped(0);
      return right ? Status() : Status(Code::kDataLoss, "wrong word about what was skipped");
    });
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE("a worker that dies before its vote is named to the others, who wait for it") {
  const Servers servers({2});
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 3);
    options.job.rule = RuleKind::kSgd;
    options.job.hyper.momentum = 0.0F;
    options.job.loss_scale.kind = LossScaling::kVoted;
    const Status status = run_workers(options, keys_of(options), [](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(client.initialise());
      PHUB_RETURN_IF_ERROR(push_all(client));
      if (client.worker_index() == 1) return {};  // leaves with its vote not given
      PHUB_RETURN_IF_ERROR(client.vote({}));
      const Status lost = client.wait_all();
      if (lost.ok()) return {Code::kInternal, "a round ended without worker 1's vote"};
      return lost.message().find("worker 1") == std::string::npos ? lost : Status();
    });
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE("a worker with another loss scale than the others is dropped, and the job ends") {
  const Servers servers({1});
  std::uint64_t drops = 0;
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = servers.options(transport, 2);
    options.job.rule = RuleKind::kSgd;
    options.job.hyper.momentum = 0.0F;
    options.job.loss_scale.kind = LossScaling::kVoted;
    const Status status = run_workers(options, keys_of(options), [](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(client.initialise());
      PHUB_RETURN_IF_ERROR(push_all(client));
      const float scale = client.worker_index() == 0 ? 2.0F : 4.0F;
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = scale}));
      return client.wait_all();
    });
    INFO(transport << " " << status.to_string());
    CHECK(status.message().find("another loss scale") != std::string::npos);
    CHECK(servers.drops(0, "bad vote") == ++drops);
  }
}

TEST_CASE("votes that cannot be given are refused by the client, with the cure") {
  const Servers servers({1});
  ClientOptions options = servers.options(tested_transports().front(), 1);
  options.job.rule = RuleKind::kSgd;
  options.job.hyper.momentum = 0.0F;
  const auto refused = [](Client& client, const Vote& vote, const std::string& words) {
    const Status status = client.vote(vote);
    CHECK_THAT(status.message(), Catch::Contains(words));
  };
  {
    const auto client = std::move(*Client::connect(options));
    REQUIRE(client->register_keys(keys_of(options)).ok());
    refused(*client, {}, "not a voted one");
  }
  options.job.loss_scale.kind = LossScaling::kVoted;
  const auto client = std::move(*Client::connect(options));
  REQUIRE(client->register_keys(keys_of(options)).ok());
  REQUIRE(client->initialise().ok());
  refused(*client, {}, "push every key first; 5 are not");
  REQUIRE(push_all(*client).ok());
  refused(*client, {.loss_scale = 0.0F}, "finite and above 0");
  CHECK(client->vote({}).ok());
  CHECK(client->wait_all().ok());
  refused(*client, {}, "push every key first; 5 are not");
}

TEST_CASE("waiting before the vote says so") {
  const Servers servers({1});
  ClientOptions options = servers.options(tested_transports().front(), 1);
  options.job.rule = RuleKind::kSgd;
  options.job.hyper.momentum = 0.0F;
  options.job.loss_scale.kind = LossScaling::kVoted;
  options.timeout = std::chrono::milliseconds(500);
  Status waited;
  // A machine that is too slow to come as far in that time tries again.
  for (bool has_pushed = false; !has_pushed;) {
    const auto client = std::move(*Client::connect(options));
    has_pushed = client->register_keys(keys_of(options)).ok() && client->initialise().ok() &&
                 push_all(*client).ok();
    if (has_pushed) waited = client->wait(0);
  }
  CHECK_THAT(waited.message(), Catch::Contains("call vote before wait"));
}

TEST_CASE("jobs that cannot be are refused with the field") {
  const Servers servers({1});
  const auto error = [&](const std::function<void(ClientOptions&)>& change,
                         std::vector<KeySpec> keys = {{"w", 10}}) {
    ClientOptions options = servers.options(tested_transports().front(), 1);
    options.job.rule = RuleKind::kMomentum;
    change(options);
    auto client = Client::connect(options);
    return client ? (*client)->register_keys(keys).message() : client.error().message();
  };
  CHECK_THAT(error([](ClientOptions& o) { o.job.lars.coefficient = 0.5F; }),
             Catch::Contains("choose lars"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.job.rule = RuleKind::kLars;
               o.job.lars.epsilon = -1.0F;
             }),
             Catch::Contains("trust_epsilon"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.job.loss_scale = {LossScaling::kStatic, -2.0F};
             }),
             Catch::Contains("loss_scale: -2"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.job.loss_scale = {LossScaling::kVoted, 2.0F};
             }),
             Catch::Contains("loss_scale: 2 contradicts loss_scaling: voted"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.job.rule = RuleKind::kMean;
               o.job.hyper = {.gradient_scale = 0.0F};
               o.job.loss_scale.kind = LossScaling::kVoted;
             }),
             Catch::Contains("loss_scaling: voted contradicts rule: mean"));
  CHECK_THAT(error([](ClientOptions&) {}, {{"w", 10, 0.0F, true}}),
             Catch::Contains("exclude_from_lars"));
}

TEST_CASE("workers that disagree about lars or loss scale do not join one job") {
  const Servers servers({1});
  const auto refusal = [&](const std::function<void(ClientOptions&)>& change) {
    ClientOptions options = servers.options(tested_transports().front(), 2);
    options.job.rule = RuleKind::kLars;
    options.job.loss_scale = {LossScaling::kStatic, 128.0F};
    options.worker_index = 0;
    // The first to join makes the job, and waits for the other.
    auto first = std::move(*Client::connect(options));
    Status first_status;
    std::thread waiting([&] { first_status = first->register_keys({{"w", 10}}); });
    const auto is_waiting = [&servers] {  // the one before it stays listed
      const auto job = servers.job(0);
      return job && job->state() == control::JOB_STATE_WAITING;
    };
    while (!is_waiting()) std::this_thread::yield();
    options.worker_index = 1;
    change(options);
    const Status refused = (*Client::connect(options))->register_keys({{"w", 10}});
    servers.close_job();
    waiting.join();
    CHECK_FALSE(first_status.ok());
    return refused.message();
  };
  CHECK_THAT(refusal([](ClientOptions& o) { o.job.loss_scale.factor = 64.0F; }),
             Catch::Contains("loss_scale is 128 in the job but 64"));
  CHECK_THAT(refusal([](ClientOptions& o) { o.job.lars.epsilon = 1e-6F; }),
             Catch::Contains("trust_epsilon is 0 in the job but 1e-06"));
}

}  // namespace phub::testing
