// Jobs that span racks, over each transport between the racks' servers: sums, worker 0's words,
// votes.
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "tests/support/hang_guard.h"
#include "tests/support/nested_names.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/racks/joined_servers.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

constexpr int kJoinedRounds = 6;
const std::vector<KeySpec> kJoinedKeys = {{"a", 10}, {"b", 100'000}, {"c", 1}, {"d", 8193}};

std::string next_name() {
  static int jobs = 0;
  return "joined" + std::to_string(++jobs);
}

// A job of its own name: one that ends is there until all of its racks have left.
ClientOptions racks_options(const JoinedServers& racks, const std::vector<std::uint32_t>& workers) {
  ClientOptions options{.servers = {},
                        .job = {.name = next_name(), .workers = 0},
                        .transport = "tcp",
                        .timeout = testing::kHangGuard};
  for (std::uint32_t rack = 0; rack < workers.size(); ++rack) {
    options.job.racks.push_back({racks.name(rack), workers[rack]});
    options.job.workers += workers[rack];
  }
  return options;
}

template <typename Body>
Status run(const JoinedServers& racks, const ClientOptions& options, Body body) {
  return run_workers(options, kJoinedKeys, body, [&](ClientOptions& own) {
    std::uint32_t rack = 0;
    auto before = static_cast<std::uint32_t>(own.worker_index);
    while (before >= own.job.racks[rack].workers) before -= own.job.racks[rack++].workers;
    own.servers = racks.addresses(rack);
  });
}

void fill_all(Client& client, float value) {
  for (KeyId key = 0; key < kJoinedKeys.size(); ++key) {
    for (float& each : client.gradient<float>(key)) each = value;
  }
}

Status push_all(Client& client) {
  for (KeyId key = static_cast<KeyId>(kJoinedKeys.size()); key-- > 0;) {
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  return {};
}

Status expect(Client& client, float expected) {
  for (KeyId key = 0; key < kJoinedKeys.size(); ++key) {
    for (const float value : client.parameter<float>(key)) {
      if (value == expected) continue;
      return {Code::kDataLoss, "key " + std::to_string(key) + " is " + std::to_string(value) +
                                   " in place of " + std::to_string(expected)};
    }
  }
  return {};
}

// Of worker w it pushes w + round: whole numbers, whose sum is exact in any order.
Status sum_in_racks(Client& client) {
  for (int round = 1; round <= kJoinedRounds; ++round) {
    const auto n = static_cast<float>(client.workers());
    fill_all(client, static_cast<float>(round) + static_cast<float>(client.worker_index()));
    PHUB_RETURN_IF_ERROR(push_all(client));
    PHUB_RETURN_IF_ERROR(client.wait_all());
    PHUB_RETURN_IF_ERROR(expect(client, n * static_cast<float>(round) + n * (n - 1) / 2));
  }
  return {};
}

// Worker 0's learning rate is another in each round; what a vote is against changes nothing.
Status learn(Client& client, bool votes) {
  const bool leads = client.worker_index() == 0;
  fill_all(client, leads ? 64.0F : -1.0F);
  PHUB_RETURN_IF_ERROR(client.initialise());
  float expected = 64.0F;
  for (int round = 1; round <= kJoinedRounds; ++round) {
    const auto rate = static_cast<float>(round);
    PHUB_RETURN_IF_ERROR(client.set_hyper(
        {.learning_rate = leads ? rate : 99.0F, .momentum = 0.0F, .gradient_scale = 1.0F}));
    fill_all(client, 1.0F);
    PHUB_RETURN_IF_ERROR(push_all(client));
    const bool is_against = votes && round % 3 == 0;
    const bool is_last = client.worker_index() + 1 == client.workers();
    if (votes) {
      PHUB_RETURN_IF_ERROR(
          client.vote({.loss_scale = 1.0F, .overflow = is_against && is_last ? 1U : 0U}));
    }
    PHUB_RETURN_IF_ERROR(client.wait_all());
    if (!is_against) expected -= rate * static_cast<float>(client.workers());
    if (client.was_skipped(0) != is_against) return {Code::kDataLoss, "skipped, or not"};
    PHUB_RETURN_IF_ERROR(expect(client, expected));
  }
  return {};
}

// Of worker w: the same in every run.
std::vector<float> fractions(std::uint32_t worker, std::size_t count) {
  std::mt19937 random(worker);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

// What worker 0 has of key "b" when all have pushed their fractions.
std::vector<float> sum_of_fractions(const JoinedServers& racks, const ClientOptions& options) {
  constexpr KeyId kKey = 1;
  std::vector<float> sum;
  const Status status = run(racks, options, [&](Client& client) -> Status {
    fill_all(client, 0.0F);
    const auto gradient = client.gradient<float>(kKey);
    const std::vector<float> own = fractions(client.worker_index(), gradient.size());
    std::copy(own.begin(), own.end(), gradient.begin());
    PHUB_RETURN_IF_ERROR(push_all(client));
    PHUB_RETURN_IF_ERROR(client.wait_all());
    const auto parameter = client.parameter<float>(kKey);
    if (client.worker_index() == 0) sum.assign(parameter.begin(), parameter.end());
    return {};
  });
  INFO(status.to_string());
  REQUIRE(status.ok());
  return sum;
}

// The documented fold, by one thread: of a rack's workers in their order, then of racks in theirs.
std::vector<float> fold(const ClientOptions& options, std::size_t count) {
  const auto add = [](std::vector<float>& sum, const std::vector<float>& more) {
    if (sum.empty()) return void(sum = more);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  };
  std::vector<float> all;
  std::uint32_t worker = 0;
  for (const RackSpec& rack : options.job.racks) {
    std::vector<float> sum;
    for (std::uint32_t i = 0; i < rack.workers; ++i) add(sum, fractions(worker++, count));
    add(all, sum);
  }
  return all;
}

}  // namespace

TEST_CASE("sums have the bits of a fold of each rack's workers, then of racks") {
  for (const std::string& transport : tested_transports()) {
    const JoinedServers racks({.transport = transport, .racks = 3});
    const ClientOptions options = racks_options(racks, {3, 2, 1});
    const std::vector<float> sum = sum_of_fractions(racks, options);
    INFO(transport);
    REQUIRE(sum == fold(options, sum.size()));
  }
}

TEST_CASE("three levels of racks have the bits that they have over tcp") {
  const auto by_chain = [](const std::string& transport) {
    const JoinedServers racks({.transport = transport, .racks = 3});
    ClientOptions options = racks_options(racks, {2, 2, 1});
    options.job.rack_shape = RackShape::kChain;
    return sum_of_fractions(racks, options);
  };
  const std::vector<float> over_tcp = by_chain("tcp");
  for (const std::string& transport : tested_transports()) {
    INFO(transport);
    REQUIRE(by_chain(transport) == over_tcp);
  }
}

TEST_CASE("sums of all racks are exact, by every shape, with one server a rack and with two") {
  for (const std::string& transport : tested_transports()) {
    for (const std::uint32_t servers : {1U, 2U}) {
      const JoinedServers racks({.transport = transport, .racks = 3, .servers = servers});
      for (const RackShape shape :
           {RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour, RackShape::kHybrid}) {
        ClientOptions options = racks_options(racks, {2, 1, 2});
        options.job.rack_shape = shape;
        const Status status = run(racks, options, sum_in_racks);
        INFO(transport << ", servers " << servers << ": " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE(
    "two racks in each of two rows of two sites sum by their levels, and have one tcp's bits") {
  std::vector<float> over_tcp;
  for (const std::string& transport : tested_transports()) {
    const JoinedServers racks(
        {.transport = transport, .racks = 8, .names = testing::nested_names(8), .cores = 1});
    ClientOptions options = racks_options(racks, {2, 1, 1, 1, 2, 1, 1, 1});
    options.job.rack_shape = RackShape::kNested;
    const Status status = run(racks, options, sum_in_racks);
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
    options.job.name = next_name();
    const std::vector<float> sum = sum_of_fractions(racks, options);
    if (over_tcp.empty()) over_tcp = sum;
    REQUIRE(sum == over_tcp);
  }
}

TEST_CASE("sums in 16 bits between racks, and workers' own in 16 bits") {
  for (const std::string& transport : tested_transports()) {
    const JoinedServers racks({.transport = transport});
    ClientOptions options = racks_options(racks, {1, 2});
    options.job.rack_wire_type = DataType::kBfloat16;
    const Status status = run(racks, options, sum_in_racks);
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
  }
}

TEST_CASE("worker 0's hyper-parameters and the workers' votes reach all racks") {
  for (const std::string& transport : tested_transports()) {
    const JoinedServers racks({.transport = transport, .racks = 3});
    for (const bool votes : {false, true}) {
      ClientOptions options = racks_options(racks, {1, 1, 2});
      options.job.rule = RuleKind::kSgd;
      options.job.hyper = {.learning_rate = 50.0F, .gradient_scale = 1.0F};
      if (votes) options.job.loss_scale = {.kind = LossScaling::kVoted};
      const Status status = run(racks, options, [&](Client& each) { return learn(each, votes); });
      INFO(transport << (votes ? " with votes " : " ") << status.to_string());
      REQUIRE(status.ok());
    }
  }
}

// Of each worker, after some rounds.
std::vector<std::vector<float>> compressed(const JoinedServers& racks, ClientOptions options,
                                           Status& status) {
  options.job.rule = RuleKind::kMomentum;
  options.job.hyper = {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.0F};
  std::vector<std::vector<float>> learned(options.job.workers);
  status = run(racks, options, [&](Client& client) -> Status {
    fill_all(client, 1.0F);
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (std::uint32_t round = 1; round <= kJoinedRounds; ++round) {
      for (KeyId key = 0; key < kJoinedKeys.size(); ++key) {
        const auto gradient = client.gradient<float>(key);
        const auto own = fractions(round * 16 + client.worker_index(), gradient.size());
        std::copy(own.begin(), own.end(), gradient.begin());
      }
      PHUB_RETURN_IF_ERROR(push_all(client));
      PHUB_RETURN_IF_ERROR(client.wait_all());
    }
    for (KeyId key = 0; key < kJoinedKeys.size(); ++key) {
      const auto parameter = client.parameter<float>(key);
      std::vector<float>& all = learned[client.worker_index()];
      all.insert(all.end(), parameter.begin(), parameter.end());
    }
    return {};
  });
  return learned;
}

std::vector<std::vector<float>> compressed(const JoinedServers& racks,
                                           const ClientOptions& options) {
  Status status;
  auto learned = compressed(racks, options, status);
  INFO(status.to_string());
  REQUIRE(status.ok());
  return learned;
}

TEST_CASE("racks that push some of their sums have tcp's bits everywhere, and in each run") {
  for (const RackShape shape : {RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour}) {
    const auto by = [shape](const std::string& transport) {
      const JoinedServers racks({.transport = transport, .racks = 3, .servers = 2});
      ClientOptions options = racks_options(racks, {2, 1, 2});
      options.job.rack_shape = shape;
      options.job.rack_compress = {.density = 0.01F};
      return compressed(racks, options);
    };
    const auto over_tcp = by("tcp");
    for (const auto& learned : over_tcp) REQUIRE(learned == over_tcp[0]);
    for (const std::string& transport : tested_transports()) {
      INFO(transport);
      REQUIRE(by(transport) == over_tcp);
    }
  }
}

TEST_CASE("racks that make rounds by themselves have tcp's bits over every transport") {
  for (const float density : {0.0F, 0.01F}) {
    const auto by = [density](const std::string& transport) {
      const JoinedServers racks({.transport = transport, .racks = 3});
      ClientOptions options = racks_options(racks, {2, 1, 2});
      options.job.rack_local = {.steps = 2};
      options.job.rack_compress = {.density = density};
      return compressed(racks, options);
    };
    const auto over_tcp = by("tcp");
    for (const auto& learned : over_tcp) REQUIRE(learned == over_tcp[0]);
    for (const std::string& transport : tested_transports()) {
      INFO(transport);
      REQUIRE(by(transport) == over_tcp);
    }
  }
}

TEST_CASE("racks that do not wait for each other are joined by tcp only, and say so") {
  const JoinedServers racks({.transport = "shm", .racks = 2});
  ClientOptions options = racks_options(racks, {1, 1});
  options.job.rack_local = {.steps = 2, .quorum = 1};
  options.job.deterministic = false;
  Status status;
  compressed(racks, options, status);
  CHECK_THAT(status.message(), Catch::Contains("rack_transport: shm has no place for replies") &&
                                   Catch::Contains("set it to tcp or auto"));
}

TEST_CASE("a value that is not finite ends a job in all racks, with its worker, key and round") {
  for (const std::string& transport : tested_transports()) {
    for (const std::string own : {"shm", "tcp"}) {
      const JoinedServers racks({.transport = transport, .racks = 3});
      ClientOptions options = racks_options(racks, {1, 2, 1});
      options.transport = own;
      options.job.watch_values = WatchValues::kFail;
      std::vector<std::string> errors(options.job.workers);
      const Status status = run(racks, options, [&](Client& client) -> Status {
        Status ended;
        for (int round = 1; round <= kJoinedRounds && ended.ok(); ++round) {
          fill_all(client, 1.0F);
          const bool is_bad = client.worker_index() == 2 && round == 3;
          if (is_bad) client.gradient<float>(3)[8192] = std::numeric_limits<float>::infinity();
          ended = push_all(client);
          if (ended.ok()) ended = client.wait_all();
        }
        errors[client.worker_index()] = ended.message();
        return {};
      });
      INFO(transport << " " << own << " " << status.to_string());
      REQUIRE(status.ok());
      for (const std::string& error : errors) {
        CHECK_THAT(error, Catch::Contains("worker 2") && Catch::Contains("+inf in key") &&
                              Catch::Contains("element 8192, in round 3"));
      }
    }
  }
}

}  // namespace phub
