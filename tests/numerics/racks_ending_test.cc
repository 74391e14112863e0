// Racks that make rounds by themselves end a job: planned, and one after the other.
#include <atomic>
#include <future>
#include <mutex>

#include "tests/support/hang_guard.h"
#include "tests/support/main/catch.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/racks/joined_servers.h"

namespace phub {
namespace {

constexpr std::uint32_t kSteps = 6;  // from one exchange to the next

// Runs `body` for one worker in the first rack and two in the second.
template <typename Body>
Status run_racks(const JoinedServers& servers, const char* name, const Body& body) {
  ClientOptions options;
  options.job = {.name = name, .workers = 3, .rule = RuleKind::kSgd};
  options.job.racks = {{"a", 1}, {"b", 2}};
  options.job.rack_local.steps = kSteps;
  options.transport = "tcp";
  options.timeout = testing::kHangGuard;
  return run_workers(
      options, {{"k", 5000}},
      [&](Client& client) -> Status {
        PHUB_RETURN_IF_ERROR(client.initialise());
        return body(client);
      },
      [&](ClientOptions& own) { own.servers = servers.addresses(own.worker_index == 0 ? 0 : 1); });
}

JoinedServersOptions two_racks() {
  JoinedServersOptions options{.transport = "tcp"};
  options.racks = 2;
  options.names = {"a", "b"};
  return options;
}

}  // namespace

TEST_CASE("a planned end of racks that are apart comes after an exchange, for all of them",
          "[racks]") {
  const JoinedServers servers(two_racks());
  std::atomic<std::uint32_t> furthest = 0;  // of the second rack
  std::mutex mutex;
  std::vector<std::uint64_t> ends;
  const Status trained = run_racks(servers, "planned", [&](Client& client) -> Status {
    const bool is_first = client.worker_index() == 0;
    std::uint32_t step = 0;
    for (bool is_last = false; !is_last;) {
      ++step;
      // The second rack is in the exchange, as far ahead as it can be, when the end is asked for.
      while (is_first && step == 2 && furthest < kSteps) std::this_thread::yield();
      PHUB_RETURN_IF_ERROR(client.push(0));
      if (!is_first) furthest = std::max(furthest.load(), step);
      if (is_first && step == 2) PHUB_RETURN_IF_ERROR(client.end("a test"));
      PHUB_ASSIGN_OR_RETURN(is_last, client.is_last(step));
      PHUB_RETURN_IF_ERROR(client.wait_all());
    }
    const std::lock_guard lock(mutex);
    ends.push_back(step);
    return {};
  });
  CHECK(trained.to_string() == Status().to_string());
  REQUIRE(ends.size() == 3);
  CHECK(ends[0] % kSteps == 0);
  CHECK(ends[1] == ends[0]);
  CHECK(ends[2] == ends[0]);
}

TEST_CASE("a rack that ends first leaves the others their rounds to the next exchange", "[racks]") {
  const JoinedServers servers(two_racks());
  std::vector<std::uint32_t> steps(3);
  std::promise<void> given_up;
  const std::future<void> gives_up = given_up.get_future();
  const Status trained = run_racks(servers, "leaves", [&](Client& client) -> Status {
    std::uint32_t& step = steps[client.worker_index()];
    while (step < kSteps - 1) {
      ++step;
      // Worker 1 hears of worker 0's end, and is not to give up for it.
      if (client.worker_index() == 2 && step == 2) {
        gives_up.wait_for(std::chrono::milliseconds(2500));
      }
      PHUB_RETURN_IF_ERROR(client.push(0));
      const Status waited = client.wait_all();
      if (client.worker_index() == 1 && !waited.ok()) given_up.set_value();
      PHUB_RETURN_IF_ERROR(waited);
    }
    return {};
  });
  CHECK(trained.to_string() == Status().to_string());
  CHECK(steps == std::vector<std::uint32_t>(3, kSteps - 1));
}

}  // namespace phub
