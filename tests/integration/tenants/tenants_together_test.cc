// Two tenants train at once on the same cores; what happens to one, the other does not notice.
#include <catch2/catch.hpp>
#include <climits>
#include <future>

#include "tests/support/hang_guard.h"
#include "tests/support/server/two_tenants.h"
#include "tests/support/stalling_worker.h"

namespace phub::testing {
namespace {

constexpr std::uint64_t kElements = 60'000;
constexpr int kRoundsAfter = 30;

// `after_round` says, at worker 0, which round is the last.
template <typename AfterRound>
Status sum(const ClientOptions& options, float own, AfterRound after_round) {
  std::atomic<int> last{INT_MAX};
  return run_workers(options, {{"a", kElements}, {"b", 5}}, [&](Client& client) -> Status {
    for (int round = 0; round <= last.load(); ++round) {
      PHUB_RETURN_IF_ERROR(sum_round(client, own, round));
      if (client.worker_index() == 0) last.store(std::min(last.load(), after_round(round)));
    }
    return {};
  });
}

// More than the sockets between two processes hold.
const std::vector<KeySpec> kLargeKeys = {{"a", 4U << 20}, {"b", 5}};
constexpr std::uint64_t kLargeBytes = 16U << 20;
// The budget of a core, and what is on its way beside it: far less than a worker's gradients.
constexpr std::uint64_t kStagingBytesMax = 8U << 20;

void push_round(StallingWorker& worker, float own, int round) {
  for (const KeyId key : {0U, 1U}) worker.push(key, pushed_value(own, round, 1, key));
}

// Reads the replies of a round and checks them.
Status read_round(StallingWorker& worker, float own, int round) {
  PHUB_RETURN_IF_ERROR(worker.run_until([&] { return worker.is_answered(); }));
  for (const KeyId key : {0U, 1U}) {
    const float sum = pushed_value(own, round, 0, key) + pushed_value(own, round, 1, key);
    if (!worker.has_only(key, sum)) return {Code::kDataLoss, "a wrong sum at the one that stalls"};
  }
  return {};
}

}  // namespace

TEST_CASE("a tenant's sums stay right while another tenant's job is closed beside them") {
  for (const char* const transport : {"shm", "tcp"}) {
    INFO(transport);
    const TwoTenants tenants(2);
    std::promise<void> red_trains;
    std::promise<void> blue_trains;
    std::atomic<bool> red_is_over{false};
    auto red = std::async(std::launch::async, [&] {
      const Status status = sum(tenants.job_of("red", transport), 1.0F, [&](int round) {
        if (round == 10) red_trains.set_value();
        return INT_MAX;
      });
      red_is_over = true;
      return status;
    });
    auto blue = std::async(std::launch::async, [&] {
      return sum(tenants.job_of("blue", transport), 100.0F, [&](int round) {
        if (round == 10) blue_trains.set_value();
        return red_is_over.load() && round > 10 ? round + kRoundsAfter : INT_MAX;
      });
    });
    for (std::promise<void>* const trains : {&red_trains, &blue_trains}) {
      REQUIRE(trains->get_future().wait_for(kHangGuard) == std::future_status::ready);
    }
    REQUIRE(tenants.close_job_of("red").ok());
    CHECK(red.get().message().find("closed by an administrator") != std::string::npos);
    const Status status = blue.get();
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("a worker that stops reading holds up its own job only, which goes on when it reads") {
  constexpr float kOwn = 1.0F;
  constexpr int kRounds = 4;
  for (const char* const transport : {"shm", "tcp"}) {
    INFO(transport);
    const TwoTenants tenants(1);
    ClientOptions red = tenants.job_of("red", transport);
    std::atomic<int> rounds_of_brisk{0};
    red.worker_index = 0;
    auto brisk = std::async(std::launch::async, [&, red]() -> Status {
      PHUB_ASSIGN_OR_RETURN(const auto client, Client::connect(red));
      PHUB_RETURN_IF_ERROR(client->register_keys(kLargeKeys));
      for (int round = 0; round < kRounds; ++round) {
        PHUB_RETURN_IF_ERROR(sum_round(*client, kOwn, round));
        ++rounds_of_brisk;
      }
      return {};
    });
    red.worker_index = 1;
    auto joined = StallingWorker::join(red, kLargeKeys);
    INFO((joined ? "" : joined.error().message()));
    REQUIRE(joined);
    StallingWorker& stalling = **joined;
    push_round(stalling, kOwn, 0);
    REQUIRE(read_round(stalling, kOwn, 0).message().empty());
    push_round(stalling, kOwn, 1);
    stalling.read(false);
    // The other worker of its job has what is complete; then that job stands still.
    REQUIRE(stalling.run_until([&] { return rounds_of_brisk == 2; }).message().empty());

    const Status blue =
        sum(tenants.job_of("blue", transport), 100.0F, [](int /*round*/) { return kRoundsAfter; });
    CHECK(blue.message().empty());
    const control::JobInfo stuck = tenants.inspect_job_of("red");
    CHECK(rounds_of_brisk == 2);
    CHECK(stuck.state() == control::JOB_STATE_RUNNING);
    CHECK(stuck.statistics().staging_bytes() < kStagingBytesMax);
    if (transport == std::string("tcp")) CHECK(stuck.members(1).bytes_sent() < 2 * kLargeBytes);

    stalling.read(true);
    for (int round = 1; round < kRounds; ++round) {
      if (round > 1) push_round(stalling, kOwn, round);
      REQUIRE(read_round(stalling, kOwn, round).message().empty());
    }
    CHECK(brisk.get().message().empty());
  }
}

}  // namespace phub::testing
