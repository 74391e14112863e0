// Bits that flip after a push has its checksum, through libphub and a whole daemon: the job ends
// with worker, key and round, whatever the transport; others go on.
//
// The linker puts a function of the test before ISA-L's (CMakeLists.txt): when a worker has made
// the checksum of a chunk that is to be spoiled, one of its bits is flipped, before it is sent.
#include <grpcpp/create_channel.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "common/job/used_hyper.h"
#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

// One bit of a chunk in this memory: of so many that are pushed first, none.
struct Flip {
  const unsigned char* begin = nullptr;
  const unsigned char* end = nullptr;
  std::uint32_t chunks_before = 0;
  std::uint32_t bit = 0;
  const unsigned char* chunk = nullptr;  // that was spoiled, once it is
};

std::mutex flips_mutex;
std::vector<Flip*> flips;

void arm(Flip& flip) {
  const std::lock_guard lock(flips_mutex);
  flips.push_back(&flip);
}

// Who only reads has other addresses: another mapping, a window, staging.
void spoil(unsigned char* data, std::size_t bytes) {
  const std::lock_guard lock(flips_mutex);
  for (Flip* flip : flips) {
    if (data < flip->begin || data >= flip->end || flip->chunk != nullptr) continue;
    if (flip->chunks_before-- > 0) continue;
    flip->chunk = data;
    data[flip->bit / 8 % bytes] ^= static_cast<unsigned char>(1U << (flip->bit % 8));
  }
}

}  // namespace
}  // namespace phub::testing

// Names that the linker gives.
extern "C" {
unsigned real_crc32_iscsi(unsigned char* data, int bytes, unsigned seed) asm("__real_crc32_iscsi");
unsigned spoiling_crc32_iscsi(unsigned char* data, int bytes,
                              unsigned seed) asm("__wrap_crc32_iscsi");
}
unsigned spoiling_crc32_iscsi(unsigned char* data, int bytes, unsigned seed) {
  const unsigned sum = real_crc32_iscsi(data, bytes, seed);
  if (bytes > 0) phub::testing::spoil(data, static_cast<std::size_t>(bytes));
  return sum;
}

namespace phub::testing {
namespace {

constexpr std::uint32_t kSpoiledWorkers = 3;
constexpr std::uint32_t kSpoiledRounds = 4;
constexpr std::uint32_t kChunks = 6;  // at least, of these keys
const std::vector<KeySpec> kSpoiledKeys = {
    {"bias", 30}, {"large", 40'000}, {"small", 900}, {"odd", 8193}};

struct Plot {
  std::uint32_t worker = 0;
  std::uint32_t round = 1;  // 0: nothing is flipped
  Flip flip = {};
};

ClientOptions checked(const TestServer& server, const std::string& transport,
                      const std::string& job) {
  return {
      .servers = {server.address()},
      .job = {.name = job, .workers = kSpoiledWorkers, .rule = RuleKind::kMean, .checksums = true},
      .transport = transport,
      .timeout = kHangGuard};
}

control::JobInfo inspect(const TestServer& server, const std::string& job) {
  const auto admin = control::Admin::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  control::InspectJobRequest request;
  request.set_name(job);
  control::InspectJobReply reply;
  return admin->InspectJob(&context, request, &reply).ok() ? reply.job() : control::JobInfo();
}

void fill_typed(Client& client, KeyId key, DataType type, float value) {
  const std::size_t size = size_of(type);
  std::byte* const place = client.gradient_bytes(key).data();
  for (std::size_t i = 0; i < kSpoiledKeys[key].elements; ++i) {
    const auto half = static_cast<std::uint16_t>(0x3C00 + i % 100);
    size == sizeof(value) ? std::memcpy(place + i * size, &value, size)
                          : std::memcpy(place + i * size, &half, size);
  }
}

// The key whose part the spoiled chunk begins with, and the worker's error.
struct Outcome {
  std::string key;
  std::vector<std::string> errors = std::vector<std::string>(kSpoiledWorkers);
  Status status;
};

Outcome run_plot(const ClientOptions& options, Plot& plot) {
  Outcome outcome;
  outcome.status = run_workers(options, kSpoiledKeys, [&](Client& client) -> Status {
    const std::uint32_t w = client.worker_index();
    for (KeyId key = 0; key < kSpoiledKeys.size(); ++key)
      fill_typed(client, key, options.job.wire_type, 0.5F);
    if (has_parameters(options.job.rule)) PHUB_RETURN_IF_ERROR(client.initialise());
    const bool is_victim = w == plot.worker;
    for (std::uint32_t round = 1; round <= kSpoiledRounds; ++round) {
      if (is_victim && round == plot.round) {
        const auto first = client.gradient_bytes(0);
        const auto last = client.gradient_bytes(static_cast<KeyId>(kSpoiledKeys.size() - 1));
        plot.flip.begin = reinterpret_cast<const unsigned char*>(first.data());
        plot.flip.end = reinterpret_cast<const unsigned char*>(last.data() + last.size());
        arm(plot.flip);
      }
      Status own;
      for (auto key = static_cast<KeyId>(kSpoiledKeys.size()); own.ok() && key-- > 0;) {
        fill_typed(client, key, options.job.wire_type, static_cast<float>(round));
        own = client.push(key);
      }
      if (own.ok()) own = client.wait_all();
      if (own.ok()) continue;
      outcome.errors[w] = own.message();
      break;
    }
    for (KeyId key = 0; is_victim && key < kSpoiledKeys.size(); ++key) {
      const auto bytes = client.gradient_bytes(key);
      const auto* const chunk = reinterpret_cast<const std::byte*>(plot.flip.chunk);
      if (chunk >= bytes.data() && chunk < bytes.data() + bytes.size()) {
        outcome.key = kSpoiledKeys[key].name;
      }
    }
    return {};
  });
  return outcome;
}

// Empty: the culprit is told, and nobody else.
std::string fault_of(const Outcome& outcome, const Plot& plot, const control::JobInfo& job) {
  if (!outcome.status.ok()) return outcome.status.message();
  const std::string named = "worker " + std::to_string(plot.worker) + " (host";
  const std::string where =
      "of key \"" + outcome.key + "\" in round " + std::to_string(plot.round) + " ";
  for (const std::string& error : outcome.errors) {
    if (error.find(named) == std::string::npos || error.find(where) == std::string::npos) {
      return named + " " + where + "is told as: " + error;
    }
  }
  if (job.state() != control::JOB_STATE_FAILED) return "the job goes on";
  for (const control::Member& member : job.members()) {
    const bool is_culprit = member.worker_index() == plot.worker;
    if (member.has_corruption() != is_culprit) return "an innocent is named, or nobody";
    if (!is_culprit) continue;
    const control::WorkerCorruption& found = member.corruption();
    if (found.pushes() != 1 || found.key() != outcome.key || found.round() != plot.round) {
      return "told as " + found.ShortDebugString();
    }
  }
  return "";
}

ClientOptions vary(ClientOptions options, std::mt19937& random) {
  static constexpr RuleKind kRules[] = {RuleKind::kMean, RuleKind::kMomentum};
  static constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16};
  static constexpr Encoding kEncodings[] = {Encoding::kDense, Encoding::kDense, Encoding::kSparse,
                                            Encoding::kInt8, Encoding::kInt4};
  options.job.rule = kRules[random() % std::size(kRules)];
  options.job.hyper =
      used_by(options.job.rule, {.learning_rate = 0.1F, .momentum = 0.9F, .gradient_scale = 0.0F});
  options.job.wire_type = kTypes[random() % std::size(kTypes)];
  options.compress.encoding = kEncodings[random() % std::size(kEncodings)];
  options.job.deterministic = random() % 2 == 0;
  return options;
}

TEST_CASE("of hundreds of flipped bits each ends its job with worker, key and round") {
  constexpr std::size_t kAtOnce = 6;
  const char* const fewer = std::getenv("PHUB_FLIPS");
  const auto times = fewer != nullptr ? std::stoul(fewer) : 56;  // a thousand over three transports
  std::mt19937 random(5);
  for (const std::string& transport : tested_transports()) {
    const auto server = std::move(*TestServer::start(2));
    for (std::size_t time = 0; time < times; ++time) {
      std::vector<Plot> plots(kAtOnce);
      std::vector<ClientOptions> options;
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        // Not in the first: a job that ends so soon may end while others still join it.
        plots[i] = {.worker = static_cast<std::uint32_t>(random() % kSpoiledWorkers),
                    .round = 2 + static_cast<std::uint32_t>(random() % (kSpoiledRounds - 1)),
                    .flip = {.chunks_before = static_cast<std::uint32_t>(random() % kChunks),
                             .bit = static_cast<std::uint32_t>(random())}};
        const std::string job = "flipped-" + std::to_string(time * kAtOnce + i);
        options.push_back(vary(checked(*server, transport, job), random));
      }
      std::vector<Outcome> outcomes(kAtOnce);
      std::vector<std::thread> jobs;
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        jobs.emplace_back([&, i] { outcomes[i] = run_plot(options[i], plots[i]); });
      }
      for (std::thread& job : jobs) job.join();
      {
        const std::lock_guard lock(flips_mutex);
        flips.clear();
      }
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        CAPTURE(transport, options[i].job.name, name_of(options[i].job.rule),
                name_of(options[i].job.wire_type), name_of(options[i].compress.encoding),
                options[i].job.deterministic);
        const std::string fault =
            fault_of(outcomes[i], plots[i], inspect(*server, options[i].job.name));
        INFO(fault);
        CHECK(fault.empty());
      }
    }
  }
}

TEST_CASE("while a job ends with a flipped bit, others on the same cores go on") {
  for (const std::string& transport : tested_transports()) {
    const auto server = std::move(*TestServer::start(1));
    Plot none = {.round = 0};
    Plot plot = {.worker = 1, .round = 2, .flip = {.chunks_before = 1, .bit = 12345}};
    Outcome innocent;
    std::thread other([&] { innocent = run_plot(checked(*server, transport, "innocent"), none); });
    const Outcome outcome = run_plot(checked(*server, transport, "flipped"), plot);
    other.join();
    {
      const std::lock_guard lock(flips_mutex);
      flips.clear();
    }
    CAPTURE(transport);
    CHECK(fault_of(outcome, plot, inspect(*server, "flipped")).empty());
    CHECK(innocent.status.ok());
    for (const std::string& error : innocent.errors) CHECK(error.empty());
  }
}

}  // namespace
}  // namespace phub::testing
