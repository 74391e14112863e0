// Compressed gradients through libphub and whole daemons: every worker receives the sum of what was
// pushed, over each transport with the same bits.
#include "kernels/sparse.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "common/job/spec.h"
#include "common/job/used_hyper.h"
#include "common/plan/plan.h"
#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"
#include "worker/compress/compressor.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kSparseWorkers = 3;
constexpr std::uint32_t kSparseRounds = 5;
const std::vector<KeySpec> kSparseKeys = {
    {"bias", 30}, {"large", 200'000}, {"small", 900}, {"odd", 8193}};

float sparse_gradient(std::uint32_t worker, std::uint32_t round, KeyId key, std::size_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(i * 2654435761U + worker * 40503U + key * 9973U + round * 7919U);
  return (static_cast<float>((mixed >> 8) % 2001) - 1000.0F) / 977.0F;
}

void fill_sparse(std::span<float> to, std::uint32_t worker, std::uint32_t round, KeyId key) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = sparse_gradient(worker, round, key, i);
}

// What a server adds up: of each worker what its compressor leaves, in their order.
class Expected {
 public:
  explicit Expected(const ClientOptions& options, std::uint32_t cores)
      : encoding_(options.compress.encoding),
        plan_(*make_plan(plan_input({.workers = kSparseWorkers,
                                     .wire_type = options.job.wire_type,
                                     .rule = options.job.rule,
                                     .chunk_bytes = options.job.chunk_bytes,
                                     .keys = kSparseKeys},
                                    {cores}))) {
    for (std::uint32_t w = 0; w < kSparseWorkers; ++w) {
      compressors_.emplace_back(plan_, kSparseKeys, options.job.wire_type, options.compress);
    }
  }

  std::vector<float> sum(std::uint32_t round, KeyId key) {
    std::vector<float> sum(kSparseKeys[key].elements);
    for (std::uint32_t w = 0; w < kSparseWorkers; ++w) {
      std::vector<float> arena(plan_.arena_elements);
      const std::span<float> own(arena.data() + plan_.key_offset[key], sum.size());
      fill_sparse(own, w, round, key);
      if (compressors_[w].is_dense(key)) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
        continue;
      }
      compressors_[w].compress(key, reinterpret_cast<std::byte*>(arena.data()));
      for (std::uint32_t i = 0; i < plan_.chunk_count[key]; ++i) {
        const std::uint32_t id = plan_.first_chunk[key] + i;
        const Chunk& chunk = plan_.chunks[id];
        add(sum.data() + chunk.arena_offset - plan_.key_offset[key], chunk,
            {arena.data() + chunk.arena_offset, compressors_[w].push_bytes()[id] / sizeof(float)});
      }
    }
    return sum;
  }

 private:
  void add(float* sum, const Chunk& chunk, std::span<const float> push) const {
    const auto bytes = std::as_bytes(push);
    if (push.size() == chunk.elements) {
      for (std::size_t i = 0; i < push.size(); ++i) sum[i] += push[i];
    } else if (encoding_ == Encoding::kSparse) {
      const auto some = wire::sparse_at(bytes.data());
      kernels::scatter_add(sum, some.indices, {some.values, DataType::kFloat32}, some.count);
    } else {
      kernels::add_quantised({sum, chunk.elements}, bytes.data(), kernels::bits_of(encoding_));
    }
  }

  Encoding encoding_;
  Plan plan_;
  std::vector<compress::Compressor> compressors_;
};

// [whole]: a machine that is emulated needs minutes.
TEST_CASE("every worker receives the sum of what all pushed, over each transport", "[whole]") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  for (const std::string& transport : tested_transports()) {
    INFO(transport << " " << name_of(encoding));
    const auto server = std::move(*TestServer::start(2));
    const ClientOptions options = {.servers = {server->address()},
                                   .job = {.name = "sparse", .workers = kSparseWorkers},
                                   .transport = transport,
                                   .compress = {.encoding = encoding},
                                   .timeout = kHangGuard};
    std::vector<std::vector<std::vector<float>>> wanted(kSparseRounds);
    Expected expected(options, 2);
    for (std::uint32_t round = 0; round < kSparseRounds; ++round) {
      for (KeyId key = 0; key < kSparseKeys.size(); ++key) {
        wanted[round].push_back(expected.sum(round, key));
      }
    }
    const Status status = run_workers(options, kSparseKeys, [&](Client& client) -> Status {
      for (std::uint32_t round = 0; round < kSparseRounds; ++round) {
        for (auto key = static_cast<KeyId>(kSparseKeys.size()); key-- > 0;) {
          fill_sparse(client.gradient<float>(key), client.worker_index(), round, key);
          PHUB_RETURN_IF_ERROR(client.push(key));
        }
        PHUB_RETURN_IF_ERROR(client.wait_all());
        for (KeyId key = 0; key < kSparseKeys.size(); ++key) {
          const auto sum = client.parameter<float>(key);
          if (std::memcmp(sum.data(), wanted[round][key].data(), sum.size_bytes()) == 0) continue;
          return {Code::kDataLoss,
                  kSparseKeys[key].name + " is another sum in round " + std::to_string(round)};
        }
      }
      const ClientStatistics statistics = client.statistics();
      const std::uint64_t fewer = encoding == Encoding::kSparse ? 10
                                  : encoding == Encoding::kInt8 ? 3
                                                                : 5;
      const bool is_less = statistics.bytes_pushed * fewer < statistics.bytes_received;
      return is_less ? Status() : Status(Code::kInternal, "pushes are too large beside replies");
    });
    INFO(status.message());
    CHECK(status.ok());
  }
}

// In round 2 a gradient of worker 1 is not finite in one of three chunks.
constexpr std::uint64_t kSkipElements = 20'000;
constexpr std::size_t kWrong = 9000;
constexpr std::uint32_t kWrongRound = 2;

// By element, whether it is in the chunk that has kWrong.
std::vector<bool> elements_beside_wrong(const ClientOptions& options, std::uint32_t cores) {
  const Plan plan = *make_plan(plan_input({.workers = options.job.workers,
                                           .rule = options.job.rule,
                                           .chunk_bytes = options.job.chunk_bytes,
                                           .keys = {{"w", kSkipElements}}},
                                          {cores}));
  REQUIRE(plan.chunks.size() > 2);
  std::vector<bool> beside(kSkipElements);
  for (const Chunk& chunk : plan.chunks) {
    const std::uint64_t begin = chunk.arena_offset - plan.key_offset[0];
    if (kWrong < begin || kWrong >= begin + chunk.elements) continue;
    for (std::uint64_t i = begin; i < begin + chunk.elements; ++i) beside[i] = true;
  }
  return beside;
}

TEST_CASE("what is pushed for an update that is left out is in later ones, over each transport",
          "[whole]") {
  const Encoding encoding = GENERATE(Encoding::kSparse, Encoding::kInt8, Encoding::kInt4);
  for (const std::string& transport : tested_transports()) {
    INFO(transport << " " << name_of(encoding));
    const auto server = std::move(*TestServer::start(2));
    const ClientOptions options = {.servers = {server->address()},
                                   .job = {.name = "skips",
                                           .workers = 2,
                                           .rule = RuleKind::kSgd,
                                           .hyper = {.learning_rate = 1.0F, .gradient_scale = 1.0F},
                                           .loss_scale = {.kind = LossScaling::kStatic}},
                                   .transport = transport,
                                   .compress = {.encoding = encoding},
                                   .timeout = kHangGuard};
    std::vector<std::vector<float>> rests(2);
    std::vector<float> parameters;
    const Status status = run_workers(options, {{"w", kSkipElements}}, [&](Client& client) {
      const std::uint32_t worker = client.worker_index();
      PHUB_RETURN_IF_ERROR(client.initialise());
      for (std::uint32_t round = 0; round < kSparseRounds; ++round) {
        fill_sparse(client.gradient<float>(0), worker, round, 0);
        const bool is_wrong = worker == 1 && round == kWrongRound;
        if (is_wrong) client.gradient<float>(0)[kWrong] = std::nanf("");
        PHUB_RETURN_IF_ERROR(client.push(0));
        PHUB_RETURN_IF_ERROR(round % 2 == 0 ? client.wait(0) : client.wait_all());
        if (client.was_skipped(0) != (round == kWrongRound)) {
          return Status(Code::kDataLoss, "skipped in round " + std::to_string(round));
        }
      }
      const KeptBack kept = client.kept_back(0);
      rests[worker].assign(kept.rest.begin(), kept.rest.end());
      const auto values = client.parameter<float>(0);
      if (worker == 0) parameters.assign(values.begin(), values.end());
      return Status();
    });
    INFO(status.message());
    REQUIRE(status.ok());
    const std::vector<bool> is_beside = elements_beside_wrong(options, 2);
    float missing = 0.0F;
    for (std::size_t i = 0; i < kSkipElements; ++i) {
      float all = 0.0F;
      for (std::uint32_t round = 0; round < kSparseRounds; ++round) {
        all += sparse_gradient(0, round, 0, i);
        const bool is_lost = round == kWrongRound && is_beside[i];
        if (!is_lost) all += sparse_gradient(1, round, 0, i);
      }
      missing = std::max(missing, std::abs(rests[0][i] + rests[1][i] - parameters[i] - all));
    }
    CHECK(missing < 1e-4F);
  }
}

std::vector<std::string> transports_and_tcp() {
  std::vector<std::string> all = tested_transports();
  if (std::ranges::find(all, "tcp") == all.end()) all.emplace_back("tcp");
  return all;
}

struct Deployment {
  std::uint32_t servers;
  float clip_norm;
  bool whole_replies = false;
};

// Over tcp and verbs replies have what changed, over shm all: the parameters are the same.
void check_replies(DataType type, RuleKind rule, const Deployment& deployed) {
  std::vector<std::vector<std::byte>> wanted;  // by round, of all keys
  for (const std::string& transport : transports_and_tcp()) {
    INFO(transport << " " << name_of(type) << " " << name_of(rule) << " " << deployed.servers
                   << " servers, clipped at " << deployed.clip_norm);
    std::vector<std::unique_ptr<TestServer>> servers;
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < deployed.servers; ++i) {
      servers.push_back(std::move(*TestServer::start(2)));
      addresses.push_back(servers.back()->address());
    }
    const ClientOptions options = {
        .servers = addresses,
        .job = {.name = "replies",
                .workers = kSparseWorkers,
                .wire_type = type,
                .rule = rule,
                .hyper = used_by(rule, {.learning_rate = 0.25F, .momentum = 0.5F}),
                .clip_norm = deployed.clip_norm,
                .whole_replies = deployed.whole_replies},
        .transport = transport,
        .compress = {.encoding = Encoding::kSparse, .dense_below = 1000},
        .timeout = kHangGuard};
    std::vector<std::vector<std::vector<std::byte>>> seen(kSparseWorkers);
    std::vector<ClientStatistics> statistics(kSparseWorkers);
    const Status status = run_workers(options, kSparseKeys, [&](Client& client) -> Status {
      const std::uint32_t worker = client.worker_index();
      const auto set = [&](KeyId key, std::uint32_t round) {
        std::vector<float> values(kSparseKeys[key].elements);
        fill_sparse(values, worker, round, key);
        kernels::convert(client.gradient_bytes(key).data(), type,
                         reinterpret_cast<const std::byte*>(values.data()), DataType::kFloat32,
                         values.size());
      };
      for (KeyId key = 0; key < kSparseKeys.size(); ++key) set(key, 99);
      PHUB_RETURN_IF_ERROR(client.initialise());
      for (std::uint32_t round = 0; round < kSparseRounds; ++round) {
        for (KeyId key = 0; key < kSparseKeys.size(); ++key) {
          set(key, round);
          PHUB_RETURN_IF_ERROR(client.push(key));
        }
        PHUB_RETURN_IF_ERROR(client.wait_all());
        std::vector<std::byte>& all = seen[worker].emplace_back();
        for (KeyId key = 0; key < kSparseKeys.size(); ++key) {
          const auto bytes = client.parameter_bytes(key);
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
      }
      statistics[worker] = client.statistics();
      return Status();
    });
    INFO(status.message());
    REQUIRE(status.ok());
    if (wanted.empty()) wanted = seen[0];
    for (const auto& own : seen) CHECK(own == wanted);
    // A whole reply in each round, and the initial one.
    const std::uint64_t whole = wanted[0].size() * (kSparseRounds + 1);
    const bool is_sparse = transport != "shm" && rule == RuleKind::kSgd && !deployed.whole_replies;
    CHECK(statistics[0].bytes_received >= (is_sparse ? wanted[0].size() : 0));
    CHECK((statistics[0].bytes_received < whole / 3) == is_sparse);
  }
}

TEST_CASE("with a rule every worker has the same parameters in each round, over each transport") {
  check_replies(DataType::kFloat32, RuleKind::kSgd, {1, 0.0F, GENERATE(false, true)});
}

TEST_CASE("the same with any rule and wire type, on several servers and clipped", "[whole]") {
  const DataType type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  const RuleKind rule = GENERATE(RuleKind::kSgd, RuleKind::kMomentum);
  check_replies(type, rule,
                GENERATE(Deployment{1, 0.0F}, Deployment{2, 0.0F}, Deployment{2, 5.0F}));
}

TEST_CASE("a key that is too large to select from is refused before any server is asked") {
  const auto client =
      Client::connect({.servers = {"127.0.0.1:1"}, .compress = {.encoding = Encoding::kSparse}});
  REQUIRE(client);
  CHECK_THAT((*client)->register_keys({{"huge", std::uint64_t{1} << 32U}}).message(),
             Catch::Matchers::Contains("key huge") && Catch::Matchers::Contains("split the key"));
}

TEST_CASE(
    "a vote with another scale than the round's residual is refused, and so is a late scale") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = {.servers = {server->address()},
                           .job = {.name = "sparse", .workers = 2},
                           .compress = {.encoding = Encoding::kInt8},
                           .timeout = kHangGuard};
  options.job.rule = RuleKind::kSgd;
  options.job.loss_scale = {.kind = LossScaling::kVoted};
  const Status status = run_workers(options, kSparseKeys, [](Client& client) -> Status {
    const auto keys = static_cast<KeyId>(kSparseKeys.size());
    const auto push_all = [&] {
      for (KeyId key = 0; key < keys; ++key) PHUB_RETURN_IF_ERROR(client.push(key));
      return Status();
    };
    PHUB_RETURN_IF_ERROR(client.initialise());
    PHUB_RETURN_IF_ERROR(push_all());
    const Status late = client.set_loss_scale(8.0F);
    PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 4.0F, .overflow = 0}));
    PHUB_RETURN_IF_ERROR(client.wait_all());
    PHUB_RETURN_IF_ERROR(push_all());
    const Status other = client.vote({.loss_scale = 8.0F, .overflow = 0});
    PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 4.0F, .overflow = 0}));
    PHUB_RETURN_IF_ERROR(client.wait_all());
    PHUB_RETURN_IF_ERROR(client.set_loss_scale(8.0F));
    PHUB_RETURN_IF_ERROR(push_all());
    PHUB_RETURN_IF_ERROR(client.vote({.loss_scale = 8.0F, .overflow = 0}));
    PHUB_RETURN_IF_ERROR(client.wait_all());
    const std::string said =
        late.message() + "; " + other.message() + "; " + client.set_loss_scale(0.0F).message();
    const bool is_right = said.find("before the first one") != std::string::npos &&
                          said.find("call set_loss_scale") != std::string::npos &&
                          said.find("finite and above 0") != std::string::npos;
    return is_right ? Status() : Status(Code::kDataLoss, said);
  });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("a job that cannot be compressed is refused with both reasons") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = {.servers = {server->address()},
                           .job = {.name = "sparse", .workers = 2},
                           .compress = {.encoding = Encoding::kSparse, .density = 0.01F},
                           .timeout = kHangGuard};
  const auto error = [&](const ClientOptions& changed) {
    const Status status = run_workers(changed, kSparseKeys, [](Client&) { return Status(); });
    return status.message();
  };
  ClientOptions lars = options;
  lars.job.rule = RuleKind::kLars;
  CHECK_THAT(error(lars),
             Catch::Matchers::Contains("encoding") && Catch::Matchers::Contains("lars"));
  ClientOptions momentum = options;
  momentum.job.rule = RuleKind::kMomentum;
  momentum.compress.momentum = 0.9F;
  CHECK_THAT(error(momentum), Catch::Matchers::Contains("compress: momentum"));
  momentum.job.rule = RuleKind::kSgd;
  momentum.compress.error_feedback = false;
  CHECK_THAT(error(momentum), Catch::Matchers::Contains("error_feedback is off"));
  options.compress.density = 2.0F;
  CHECK_THAT(error(options), Catch::Matchers::Contains("density"));
}

}  // namespace
}  // namespace phub::testing
