// A worker that writes over its shared memory while the server reads what it pushed: its own job
// may end, another job's sums are right, and the server lives.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <random>

#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"

namespace phub::testing {
namespace {

constexpr std::uint64_t kHostileElements = 400'000;

// Sums of small integers, exact, until `is_over`.
Status sum_well(const TestServer& server, const std::atomic<bool>& is_over) {
  const ClientOptions options = {.servers = {server.address()},
                                 .job = {.name = "good", .workers = 1},
                                 .compress = {.encoding = Encoding::kInt8},
                                 .timeout = kHangGuard};
  return run_workers(options, {{"w", kHostileElements}, {"small", 10}},
                     [&](Client& client) -> Status {
                       for (int round = 0; !is_over; ++round) {
                         const auto value = static_cast<float>(round % 8 * 127);
                         for (const KeyId key : {0U, 1U}) {
                           for (float& each : client.gradient<float>(key)) each = value;
                           PHUB_RETURN_IF_ERROR(client.push_pull(key));
                           for (const float each : client.parameter<float>(key)) {
                             if (each != value) return {Code::kDataLoss, "a wrong sum"};
                           }
                         }
                       }
                       return {};
                     });
}

// Pushes, and writes over what it pushed until it has lost interest.
Status scribble(Client& client, std::mt19937& random) {
  const auto gradient = client.gradient<float>(0);
  for (int round = 0; round < 30; ++round) {
    for (float& each : gradient) each = static_cast<float>(random() % 1000);
    PHUB_RETURN_IF_ERROR(client.push(0));
    const auto words = client.gradient<std::uint32_t>(0);
    for (int i = 0; i < 20'000; ++i) {
      // Mostly where the chunks of 16,384 elements begin: counts, first indices and scales.
      const std::size_t begin = random() % (words.size() / 16'384) * 16'384;
      const std::size_t place = begin + random() % (i % 2 == 0 ? 4 : 16'384);
      const auto word = static_cast<std::uint32_t>(random() >> (random() % 32));
      static_cast<volatile std::uint32_t&>(words[place]) = word;
    }
    PHUB_RETURN_IF_ERROR(client.wait(0));
  }
  return {};
}

}  // namespace

TEST_CASE("who writes over what it has pushed harms its own job only") {
  const auto server = std::move(*TestServer::start(1));
  std::atomic<bool> is_over{false};
  auto good = std::async(std::launch::async, [&] { return sum_well(*server, is_over); });
  std::mt19937 random(51);
  int ended = 0;
  for (const Encoding encoding : {Encoding::kSparse, Encoding::kInt8, Encoding::kInt4}) {
    for (const RuleKind rule : {RuleKind::kSum, RuleKind::kSgd}) {
      for (int again = 0; again < 3; ++again) {
        const Status status = run_workers(
            {.servers = {server->address()},
             .job = {.name = "bad", .rule = rule, .chunk_bytes = 65'536},
             .transport = "shm",
             .compress = {.encoding = encoding, .density = 0.1F},
             .timeout = kHangGuard},
            {{"w", kHostileElements}}, [&](Client& client) {
              const Status begun = has_parameters(rule) ? client.initialise() : Status();
              return begun.ok() ? scribble(client, random) : begun;
            });
        ended += status.ok() ? 0 : 1;
      }
    }
  }
  is_over = true;
  const Status status = good.get();
  INFO(status.message());
  CHECK(status.ok());
  CAPTURE(ended);  // as often as the server read what makes no sense: time decides
  const Status after = sum_well(*server, is_over);
  INFO(after.message());
  CHECK(after.ok());
}

}  // namespace phub::testing
