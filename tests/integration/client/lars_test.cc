// Rule lars and loss scale through libphub and whole daemons: the specification's bits at every
// worker, and what becomes of workers that break the protocol.
#include <grpcpp/create_channel.h>

#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "kernels/reference.h"
#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/rule_specification.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/shard_rig.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

using std::chrono::milliseconds;

const std::vector<KeySpec> kKeys = {{"conv.weight", 30'000, 0.01F},
                                    {"conv.bias", 20, 0.0F, true},
                                    {"fc.weight", 100'000, 0.01F},
                                    {"fc.bias", 10, 0.0F, true},
                                    {"head", 700, 0.01F}};
// Other rules exclude no keys from lars.
std::vector<KeySpec> keys_of(const ClientOptions& options) {
  std::vector<KeySpec> keys = kKeys;
  for (KeySpec& key : keys)
    key.exclude_from_lars = key.exclude_from_lars && needs_whole_keys(options.rule);
  return keys;
}

constexpr Hyper kHyper = {.learning_rate = 0.25F, .momentum = 0.9F, .gradient_scale = 0.5F};

struct Servers {
  std::vector<std::unique_ptr<TestServer>> servers;

  explicit Servers(const std::vector<std::uint32_t>& cores) {
    for (const std::uint32_t count : cores) servers.push_back(std::move(*TestServer::start(count)));
  }
  ClientOptions options(const std::string& transport, std::uint32_t workers) const {
    ClientOptions options;
    for (const auto& server : servers) options.servers.push_back(server->address());
    options.job = "lars";
    options.workers = workers;
    options.transport = transport;
    options.timeout = kHangGuard;
    options.hyper = kHyper;
    return options;
  }
  std::unique_ptr<control::Admin::Stub> admin(std::size_t server) const {
    return control::Admin::NewStub(
        grpc::CreateChannel(servers[server]->address(), grpc::InsecureChannelCredentials()));
  }
  std::uint64_t drops(std::size_t server, const std::string& cause) const {
    grpc::ClientContext context;
    control::StatisticsReply reply;
    REQUIRE(admin(server)->Statistics(&context, {}, &reply).ok());
    for (const control::Drop& drop : reply.server().drops()) {
      if (drop.cause() == cause) return drop.count();
    }
    return 0;
  }
  void close_job() const {
    grpc::ClientContext context;
    control::CloseJobRequest request;
    request.set_name("lars");
    control::CloseJobReply reply;
    REQUIRE(admin(0)->CloseJob(&context, request, &reply).ok());
  }
  // Nothing: there is no such job yet.
  std::optional<control::JobInfo> job(std::size_t server) const {
    grpc::ClientContext context;
    control::InspectJobRequest request;
    request.set_name("lars");
    control::InspectJobReply reply;
    if (!admin(server)->InspectJob(&context, request, &reply).ok()) return std::nullopt;
    return reply.job();
  }
};

// The job that a client's options describe. One core: where chunks are changes no bit, but for
// those of a norm over several servers.
server::JobLayout layout_of(const ClientOptions& options,
                            const std::vector<std::uint32_t>& cores = {1}) {
  server::JobLayout layout;
  layout.workers = options.workers;
  layout.wire_type = options.wire_type;
  layout.rule = options.rule;
  layout.lars = options.lars;
  layout.adaptive = options.adaptive;
  layout.clip_norm = options.clip_norm;
  layout.loss_scale = options.loss_scale;
  PlanInput input{.key_elements = {},
                  .wire_type = options.wire_type,
                  .chunk_bytes = options.chunk_bytes,
                  .cores_per_server = cores,
                  .whole_keys = needs_whole_keys(options.rule)};
  for (const KeySpec& key : kKeys) {
    input.key_elements.push_back(key.elements);
    layout.weight_decay.push_back(key.weight_decay);
    layout.exclude_from_lars.push_back(key.exclude_from_lars);
  }
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  return layout;
}

void fill(Client& client, DataType type, const RuleSpecification::Value& value) {
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    std::vector<float> values(kKeys[key].elements);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      values[i] = value(client.worker_index(), key, i);
    }
    kernels::reference::convert(client.gradient_bytes(key).data(), type,
                                reinterpret_cast<const std::byte*>(values.data()),
                                DataType::kFloat32, values.size());
  }
}

Status compare(const Client& client, DataType type, const RuleSpecification& specification) {
  for (KeyId key = 0; key < kKeys.size(); ++key) {
    std::vector<float> values(kKeys[key].elements);
    kernels::reference::convert(reinterpret_cast<std::byte*>(values.data()), DataType::kFloat32,
                                client.parameter_bytes(key).data(), type, values.size());
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      if (values[i] == specification.parameter(key, i)) continue;
      return {Code::kDataLoss, kKeys[key].name + " differs at " + std::to_string(i)};
    }
  }
  return {};
}

Status push_all(Client& client) {
  for (KeyId key = static_cast<KeyId>(kKeys.size()); key-- > 0;) {
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return {};
}

// Some rounds with what `round_of` says of each: its loss scale, and which worker overflows.
struct RoundPlan {
  float scale = 1.0F;
  std::int32_t overflows = -1;
};

Status train(Client& client, const ClientOptions& options, const std::vector<RoundPlan>& rounds,
             const std::vector<std::uint32_t>& cores = {1}) {
  RuleSpecification specification(layout_of(options, cores));
  const bool votes = options.loss_scale.kind == LossScaling::kVoted;
  fill(client, options.wire_type, noise(0));
  specification.initialise(noise(0));
  PHUB_RETURN_IF_ERROR(client.initialise());
  PHUB_RETURN_IF_ERROR(compare(client, options.wire_type, specification));
  std::uint32_t number = 0;
  for (const RoundPlan& round : rounds) {
    const auto gradients = noise(++number, round.scale);
    fill(client, options.wire_type, gradients);
    PHUB_RETURN_IF_ERROR(push_all(client));
    if (votes) {
      const bool mine = round.overflows == static_cast<std::int32_t>(client.worker_index());
      PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = round.scale, .overflow = mine ? 1U : 0U}));
    }
    PHUB_RETURN_IF_ERROR(client.wait_all());
    const bool skipped = round.overflows >= 0;
    if (!skipped) specification.round(kHyper, round.scale, gradients);
    PHUB_RETURN_IF_ERROR(compare(client, options.wire_type, specification));
    for (KeyId key = 0; key < kKeys.size(); ++key) {
      if (client.was_skipped(key) == skipped) continue;
      return {Code::kDataLoss, "wrong word about key " + kKeys[key].name};
    }
  }
  return {};
}

Status train_together(const ClientOptions& options, const std::vector<RoundPlan>& rounds,
                      const std::vector<std::uint32_t>& cores = {1}) {
  return run_workers(options, keys_of(options),
                     [&](Client& client) { return train(client, options, rounds, cores); });
}

}  // namespace

TEST_CASE("lars has the specification's bits over every transport, with one and two servers") {
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{1, 2}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
        ClientOptions options = servers.options(transport, 3);
        options.rule = RuleKind::kLars;
        options.lars = {.coefficient = 0.05F, .epsilon = 1e-4F};
        options.wire_type = type;
        const Status status = train_together(options, std::vector<RoundPlan>(4));
        INFO(transport << " " << name_of(type) << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE(
    "lamb has the specification's bits over every transport, clipped too, and skips by votes") {
  const std::vector<RoundPlan> rounds = {{16.0F, 1}, {16.0F}, {16.0F}, {8.0F, 0}, {8.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{1, 2}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const bool clips : {false, true}) {
        ClientOptions options = servers.options(transport, 3);
        options.rule = RuleKind::kLamb;
        options.hyper.momentum = 0.0F;
        options.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
        options.clip_norm = clips ? 0.75F : 0.0F;
        options.loss_scale.kind = LossScaling::kVoted;
        const Status status = train_together(options, rounds, clips ? cores : std::vector{1U});
        INFO(transport << " " << clips << " " << status.to_string());
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
        options.rule = rule;
        options.hyper.momentum = 0.0F;
        options.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
        if (!has_betas(rule)) options.adaptive = {.epsilon = 1e-6};
        options.loss_scale.kind = LossScaling::kVoted;
        const Status status = train_together(options, rounds);
        INFO(transport << " " << name_of(rule) << " " << status.to_string());
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
        options.rule = RuleKind::kAdamW;
        options.hyper.momentum = 0.0F;
        options.adaptive = {.epsilon = 1e-8};
        options.clip_norm = 0.75F;
        if (votes) options.loss_scale.kind = LossScaling::kVoted;
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
    options.rule = RuleKind::kAdam;
    options.hyper.momentum = 0.0F;
    options.adaptive = {.epsilon = 1e-8};
    options.clip_norm = 0.75F;
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      RuleSpecification specification(layout_of(options, cores));
      fill(client, options.wire_type, noise(0));
      specification.initialise(noise(0));
      PHUB_RETURN_IF_ERROR(client.initialise());
      for (std::uint32_t round = 1; round < 5; ++round) {
        // One element of one worker; it lies on one server.
        const auto gradients = [&](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
          const bool is_wrong = round == 2 && worker == 1 && key == 4 && i == 7;
          return is_wrong ? std::numeric_limits<float>::quiet_NaN() : noise(round)(worker, key, i);
        };
        fill(client, options.wire_type, gradients);
        PHUB_RETURN_IF_ERROR(push_all(client));
        PHUB_RETURN_IF_ERROR(client.wait_all());
        specification.round(kHyper, 1.0F, gradients);
        PHUB_RETURN_IF_ERROR(compare(client, options.wire_type, specification));
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
    options.rule = RuleKind::kMomentum;
    options.clip_norm = 0.75F;
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      fill(client, options.wire_type, noise(0));
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

TEST_CASE("a vote skips a round on every core of every server, or on none, over every transport") {
  const std::vector<RoundPlan> rounds = {{16.0F}, {32.0F, 2}, {16.0F}, {16.0F, 0}, {8.0F}, {8.0F}};
  for (const auto& cores : {std::vector<std::uint32_t>{2}, std::vector<std::uint32_t>{2, 1}}) {
    const Servers servers(cores);
    for (const std::string& transport : tested_transports()) {
      for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kLars}) {
        ClientOptions options = servers.options(transport, 3);
        options.rule = rule;
        options.wire_type = DataType::kFloat16;
        options.loss_scale.kind = LossScaling::kVoted;
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
    options.rule = RuleKind::kSgd;
    options.loss_scale.kind = LossScaling::kVoted;
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
    options.rule = RuleKind::kMomentum;
    options.wire_type = DataType::kFloat16;
    options.loss_scale = {LossScaling::kStatic, 128.0F};
    const auto broken = [](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      return worker == 1 && key == 2 && i == 70'000 ? 1e9F : noise(1, 128.0F)(worker, key, i);
    };
    const Status status = run_workers(options, keys_of(options), [&](Client& client) -> Status {
      RuleSpecification specification(layout_of(options));
      fill(client, options.wire_type, noise(0));
      specification.initialise(noise(0));
      PHUB_RETURN_IF_ERROR(client.initialise());
      fill(client, options.wire_type, broken);
      PHUB_RETURN_IF_ERROR(push_all(client));
      PHUB_RETURN_IF_ERROR(client.wait_all());
      if (specification.round(kHyper, 128.0F, broken) != 1) return {Code::kInternal, "the test"};
      PHUB_RETURN_IF_ERROR(compare(client, options.wire_type, specification));
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
    options.rule = RuleKind::kSgd;
    options.loss_scale.kind = LossScaling::kVoted;
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
    options.rule = RuleKind::kSgd;
    options.loss_scale.kind = LossScaling::kVoted;
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
  options.rule = RuleKind::kSgd;
  const auto refused = [](Client& client, const Vote& vote, const std::string& words) {
    const Status status = client.vote(vote);
    CHECK_THAT(status.message(), Catch::Contains(words));
  };
  {
    const auto client = std::move(*Client::connect(options));
    REQUIRE(client->register_keys(keys_of(options)).ok());
    refused(*client, {}, "not a voted one");
  }
  options.loss_scale.kind = LossScaling::kVoted;
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
  options.rule = RuleKind::kSgd;
  options.loss_scale.kind = LossScaling::kVoted;
  options.timeout = milliseconds(500);
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
    options.rule = RuleKind::kMomentum;
    change(options);
    auto client = Client::connect(options);
    return client ? (*client)->register_keys(keys).message() : client.error().message();
  };
  CHECK_THAT(error([](ClientOptions& o) { o.lars.coefficient = 0.5F; }),
             Catch::Contains("choose lars"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.rule = RuleKind::kLars;
               o.lars.epsilon = -1.0F;
             }),
             Catch::Contains("trust_epsilon"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.loss_scale = {LossScaling::kStatic, -2.0F};
             }),
             Catch::Contains("loss_scale: -2"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.loss_scale = {LossScaling::kVoted, 2.0F};
             }),
             Catch::Contains("static loss scaling only"));
  CHECK_THAT(error([](ClientOptions& o) {
               o.rule = RuleKind::kMean;
               o.hyper = {.gradient_scale = 0.0F};
               o.loss_scale.kind = LossScaling::kVoted;
             }),
             Catch::Contains("loss_scaling: rule mean"));
  CHECK_THAT(error([](ClientOptions&) {}, {{"w", 10, 0.0F, true}}),
             Catch::Contains("exclude_from_lars"));
}

TEST_CASE("workers that disagree about lars or loss scale do not join one job") {
  const Servers servers({1});
  const auto refusal = [&](const std::function<void(ClientOptions&)>& change) {
    ClientOptions options = servers.options(tested_transports().front(), 2);
    options.rule = RuleKind::kLars;
    options.loss_scale = {LossScaling::kStatic, 128.0F};
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
  CHECK_THAT(refusal([](ClientOptions& o) { o.loss_scale.factor = 64.0F; }),
             Catch::Contains("loss_scale is 128 in the job but 64"));
  CHECK_THAT(refusal([](ClientOptions& o) { o.lars.epsilon = 1e-6F; }),
             Catch::Contains("trust_epsilon is 0 in the job but 1e-06"));
}

}  // namespace phub::testing
