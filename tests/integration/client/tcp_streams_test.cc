// Jobs whose workers have several tcp streams to each core, through libphub and whole daemons: all
// that a worker can push has the bits that it has over one stream, whatever the job is.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include "bench/delay/delayed_endpoint.h"
#include "common/connect/data_connection.h"
#include "common/rendezvous/membership.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/rule_jobs.h"
#include "tests/support/server/test_server.h"
#include "worker/client/client_options.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint32_t kStreamWorkers = 3;
constexpr std::uint32_t kStreamRounds = 5;
const std::vector<KeySpec> kSpread = {
    {"bias", 30}, {"large", 200'000}, {"small", 900}, {"odd", 8193, 0.01F}};

using Bytes = std::vector<std::byte>;

float gradient(std::uint32_t worker, std::uint32_t round, KeyId key, std::size_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(i * 2654435761U + worker * 40503U + key * 9973U + round * 7919U);
  return (static_cast<float>((mixed >> 8) % 2001) - 1000.0F) / 977.0F;
}

void fill(Client& client, DataType type, std::uint32_t round, KeyId key, std::size_t elements) {
  std::byte* const place = client.gradient_bytes(key).data();
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = gradient(client.worker_index(), round, key, i);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    type == DataType::kFloat32 ? std::memcpy(place + i * sizeof(value), &value, sizeof(value))
                               : std::memcpy(place + i * sizeof(half), &half, sizeof(half));
  }
}

// One round of all of these keys.
Status train(Client& client, const ClientOptions& options, const std::vector<KeySpec>& keys,
             std::uint32_t round) {
  if (options.job.rounds.waits_for_all() && has_parameters(options.job.rule)) {
    PHUB_RETURN_IF_ERROR(client.set_hyper({.learning_rate = 0.1F / static_cast<float>(round),
                                           .momentum = options.job.hyper.momentum,
                                           .gradient_scale = 0.0F}));
  }
  for (auto key = static_cast<KeyId>(keys.size()); key-- > 0;) {
    fill(client, options.job.wire_type, round, key, keys[key].elements);
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  if (options.job.loss_scale.kind == LossScaling::kVoted) {
    const bool overflow = round == 3 && client.worker_index() == 1;
    PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 1.0F, .overflow = overflow ? 1U : 0U}));
  }
  return client.wait_all();
}

void keep(const Client& client, std::size_t keys, Bytes& all) {
  for (KeyId key = 0; key < keys; ++key) {
    const auto bytes = client.parameter_bytes(key);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
}

// What every worker has after each round, which is the same for all.
Result<Bytes> results(const ClientOptions& options, bool adds_keys) {
  std::vector<Bytes> of_workers(options.job.workers);
  const Status status = run_workers(options, kSpread, [&](Client& client) -> Status {
    Bytes& own = of_workers[client.worker_index()];
    std::vector<KeySpec> keys = kSpread;
    const auto initialise = [&](KeyId first) -> Status {
      if (!has_parameters(options.job.rule)) return {};
      for (KeyId key = first; key < keys.size(); ++key) {
        fill(client, options.job.wire_type, 100, key, keys[key].elements);
      }
      return client.initialise();
    };
    PHUB_RETURN_IF_ERROR(initialise(0));
    for (std::uint32_t round = 1; round <= kStreamRounds; ++round) {
      PHUB_RETURN_IF_ERROR(train(client, options, keys, round));
      keep(client, keys.size(), own);
      if (!adds_keys || round != 2) continue;
      const std::vector<KeySpec> added = {{"later", 60'000}, {"latest", 7}};
      PHUB_RETURN_IF_ERROR(client.add_keys(added));
      keys.insert(keys.end(), added.begin(), added.end());
      PHUB_RETURN_IF_ERROR(initialise(static_cast<KeyId>(kSpread.size())));
    }
    return {};
  });
  if (!status.ok()) return status;
  for (const Bytes& other : of_workers) {
    if (other != of_workers[0]) return Status(Code::kDataLoss, "workers have different results");
  }
  return std::move(of_workers[0]);
}

struct Kind {
  std::string name;
  std::function<void(ClientOptions&)> change;
  bool adds_keys = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kAll = {
      {"dense", [](ClientOptions&) {}},
      {"dense, added keys", [](ClientOptions&) {}, true},
      {"bf16 momentum, added keys",
       [](ClientOptions& o) {
         o.job.wire_type = DataType::kBfloat16;
         o.job.rule = RuleKind::kMomentum;
         o.job.hyper.momentum = 0.9F;
       },
       true},
      {"sparse, sparse replies",
       [](ClientOptions& o) {
         o.job.rule = RuleKind::kSgd;
         o.compress = {.encoding = Encoding::kSparse, .density = 0.01F};
       }},
      {"int8", [](ClientOptions& o) { o.compress = {.encoding = Encoding::kInt8}; }},
      {"votes",
       [](ClientOptions& o) {
         o.job.rule = RuleKind::kNesterov;
         o.job.hyper.momentum = 0.9F;
         o.job.loss_scale.kind = LossScaling::kVoted;
       }},
      {"clipping",
       [](ClientOptions& o) { o.job.rule = RuleKind::kAdamW, o.job.clip_norm = 0.75F; }},
      {"lars", [](ClientOptions& o) { o.job.rule = RuleKind::kLars, o.job.hyper.momentum = 0.9F; }},
      {"checksums", [](ClientOptions& o) { o.job.checksums = true; }},
      {"watched values",
       [](ClientOptions& o) {
         o.job.rule = RuleKind::kAdam, o.job.watch_values = WatchValues::kName;
       }},
  };
  return kAll;
}

class Daemons {
 public:
  explicit Daemons(bool encrypt = false, std::chrono::microseconds delay = {}) {
    for (const std::uint32_t cores : {2U, 1U}) {
      server::DaemonOptions options;
      options.data_plane.cores = cores;
      options.data_plane.encrypt_tcp = encrypt;
      options.data_plane.tcp_front = bench::delayed_by(delay);
      options.data_plane.verbs = server::OfferVerbs::kNo;
      all_.push_back(std::move(*TestServer::start(options)));
    }
  }
  ClientOptions options(const std::string& job, std::uint32_t streams) const {
    ClientOptions options = {.servers = {},
                             .job = {.name = job,
                                     .workers = kStreamWorkers,
                                     .chunk_bytes = 8192,
                                     .tcp_streams = streams},
                             .transport = "tcp",
                             .timeout = kHangGuard};
    for (const auto& server : all_) options.servers.push_back(server->address());
    return options;
  }

 private:
  std::vector<std::unique_ptr<TestServer>> all_;
};

void compare_kinds(const Daemons& daemons, std::uint32_t streams,
                   std::chrono::microseconds delay = {}) {
  for (const Kind& kind : kinds()) {
    std::vector<Bytes> bits;
    for (const std::uint32_t count : {1U, streams}) {
      ClientOptions options = daemons.options("spread", count);
      options.links.tcp_front = bench::delayed_by(delay);
      kind.change(options);
      auto result = results(options, kind.adds_keys);
      INFO(kind.name << " " << count << " " << (result ? "" : result.error().to_string()));
      REQUIRE(result);
      bits.push_back(std::move(*result));
    }
    INFO(kind.name);
    CHECK(bits[0] == bits[1]);
  }
}

TEST_CASE("over four streams everything has the bits that it has over one") {
  compare_kinds(Daemons(), 4);
}

TEST_CASE("over encrypted streams too, and their number need not divide anything") {
  compare_kinds(Daemons(true), 3);
}

TEST_CASE("over streams that are long too") {
  constexpr std::chrono::microseconds kDelay{300};
  compare_kinds(Daemons(false, kDelay), 4, kDelay);
}

TEST_CASE("over many streams rules have the specification's bits, clipped and voted on") {
  const std::vector<RoundPlan> rounds = {{16.0F, 1}, {16.0F}, {8.0F, 0}, {8.0F}};
  const std::vector<std::uint32_t> cores = {1, 2};
  const Servers servers(cores);
  ClientOptions options = servers.options("tcp", 3);
  options.job.rule = RuleKind::kLamb;
  options.job.hyper.momentum = 0.0F;
  options.job.adaptive = {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
  options.job.clip_norm = 0.75F;
  options.job.loss_scale.kind = LossScaling::kVoted;
  options.job.tcp_streams = 16;
  const Status status = train_together(options, rounds, cores);
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("with a quorum a worker that stops holds up nobody, over streams") {
  const Daemons daemons;
  ClientOptions options = daemons.options("quorum", 4);
  options.job.rule = RuleKind::kMean;
  options.job.deterministic = false;
  options.job.rounds = {.quorum = 2};
  std::latch others(2);
  const auto train_some = [&](Client& client) -> Status {
    const std::uint32_t rounds = client.worker_index() == 2 ? 1 : 20;
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      for (auto key = static_cast<KeyId>(kSpread.size()); key-- > 0;) {
        for (float& each : client.gradient<float>(key)) each = static_cast<float>(round);
        PHUB_RETURN_IF_ERROR(client.push(key));
      }
      PHUB_RETURN_IF_ERROR(client.wait_all());
      for (const float value : client.parameter<float>(1)) {
        // Of two pushes or three; who was late is told a later round's.
        if (value >= 0.9F && value <= 20.1F) continue;
        return {Code::kDataLoss, "a mean of " + std::to_string(value)};
      }
    }
    return {};
  };
  const Status status = run_workers(options, kSpread, [&](Client& client) {
    const Status trained = train_some(client);
    client.worker_index() == 2 ? others.wait() : others.count_down();
    return trained;
  });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("workers of one job come by shm and by several streams") {
  const Daemons daemons;
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kMomentum}) {
    std::vector<Bytes> bits(kStreamWorkers);
    ClientOptions options = daemons.options("mixed", 4);
    options.job.rule = rule;
    const Status status = run_workers(
        options, kSpread,
        [&](Client& client) -> Status {
          for (KeyId key = 0; key < kSpread.size(); ++key) {
            fill(client, DataType::kFloat32, 100, key, kSpread[key].elements);
          }
          if (has_parameters(rule)) PHUB_RETURN_IF_ERROR(client.initialise());
          for (std::uint32_t round = 1; round <= kStreamRounds; ++round) {
            PHUB_RETURN_IF_ERROR(train(client, options, kSpread, round));
          }
          keep(client, kSpread.size(), bits[client.worker_index()]);
          const std::string wanted = client.worker_index() == 0 ? "shm" : "tcp";
          return client.transport() == wanted ? Status() : Status(Code::kInternal, "not " + wanted);
        },
        [](ClientOptions& own) { own.transport = own.worker_index == 0 ? "auto" : "tcp"; });
    INFO(status.to_string());
    REQUIRE(status.ok());
    CHECK(bits[0] == bits[1]);
    CHECK(bits[0] == bits[2]);
  }
}

// A worker by hand, on one server.
struct ByHand {
  client::Membership membership;

  ByHand(const ClientOptions& options, std::int32_t index) {
    const JobSpec job = client::describe_job(options, kSpread);
    auto joined = client::join_all(options.servers, job, kHangGuard, {}, index);
    REQUIRE(joined);
    membership = std::move(*joined);
    REQUIRE(client::agree_on_plan(membership, job, kHangGuard));
  }
  // Opens streams until there are so many.
  void open_to(std::uint32_t count) {
    while (streams.size() < count) {
      const auto index = static_cast<std::uint32_t>(streams.size());
      auto stream = client::open_tcp(
          {.joined = membership.joined.data(), .timeout = kHangGuard, .stream = index});
      REQUIRE(stream);
      streams.push_back(std::move(*stream));
    }
  }
  Status start(std::chrono::milliseconds timeout) const {
    return membership.servers[0]->start(timeout, "by hand");
  }
  void leave() {
    REQUIRE(membership.servers[0]->leave(kHangGuard).ok());
    streams.clear();
  }
  std::vector<transport::TcpStream> streams = {};
};

TEST_CASE(
    "who leaves with some streams open makes room, and who lacks one at the deadline is named") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = {.servers = {server->address()},
                           .job = {.name = "left", .workers = 2, .tcp_streams = 4},
                           .transport = "tcp"};
  {
    ByHand whole(options, 0);
    ByHand leaving(options, 1);
    whole.open_to(4);
    leaving.open_to(3);
    leaving.leave();
    ByHand next(options, 1);
    next.open_to(4);
    CHECK(whole.start(kHangGuard).ok());
    CHECK(next.start(kHangGuard).ok());
  }
  options.job.name = "lacking";
  ByHand whole(options, 0);
  ByHand lacking(options, 1);
  whole.open_to(4);
  lacking.open_to(3);
  const Status late = whole.start(std::chrono::milliseconds(100));
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK_THAT(late.message(), Contains("worker 1") && Contains("is connected to 0 of 1 cores") &&
                                 !Contains("worker 0"));
}

TEST_CASE("streams that make no sense are refused by name") {
  const auto refusal = [](auto change) {
    ClientOptions options = {
        .servers = {"127.0.0.1:1"}, .job = {.tcp_streams = 4}, .transport = "auto"};
    change(options);
    const auto client = Client::connect(options);
    return client ? std::string() : client.error().message();
  };
  CHECK(refusal([](ClientOptions&) {}).empty());
  for (const std::uint32_t streams : {0U, 17U}) {
    CHECK_THAT(refusal([&](ClientOptions& o) { o.job.tcp_streams = streams; }),
               Contains("tcp_streams: " + std::to_string(streams)) && Contains("1 to 16"));
  }
  for (const std::string transport : {"shm", "verbs"}) {
    CHECK_THAT(refusal([&](ClientOptions& o) { o.transport = transport; }),
               Contains("tcp_streams: 4 contradicts transport: " + transport));
  }
  CHECK(refusal([](ClientOptions& o) {
          o.job.workers = 2;
          o.job.racks = {{"a", 1}, {"b", 1}};
        }).empty());
}

}  // namespace
}  // namespace phub::testing
