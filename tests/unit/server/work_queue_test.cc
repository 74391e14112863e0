// Work of several tenants on few threads.
#include "server/process/work_queue.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/server/no_threads.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using server::WorkQueue;

// Work that stands still until the test opens the gate.
class Gate {
 public:
  void pass(const std::string& who) {
    std::unique_lock lock(mutex_);
    at_gate_.push_back(who);
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(2), [&] { return at_gate_.size() >= count; });
    return at_gate_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> at_gate_;
  bool is_open_ = false;
};

TEST_CASE("a tenant's work that stands still holds up its own only") {
  Gate gate;
  WorkQueue queue("plans", {.threads = 3, .running_of_tenant = 2, .waiting_of_tenant = 9});
  for (int i = 0; i < 10; ++i) {
    REQUIRE(queue.post("red", [&gate] { gate.pass("red"); }).ok());
  }
  CHECK(gate.wait_for(2) == std::vector<std::string>{"red", "red"});
  for (int i = 0; i < 20; ++i) {
    std::promise<void> done;
    REQUIRE(queue.post("blue", [&done] { done.set_value(); }).ok());
    REQUIRE(done.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
  }
  CHECK(gate.wait_for(2).size() == 2);
  gate.open();
}

TEST_CASE("more than a tenant may queue is refused with the figures") {
  Gate gate;
  WorkQueue queue("plans", {.threads = 1, .running_of_tenant = 1, .waiting_of_tenant = 2});
  for (int i = 0; i < 3; ++i) REQUIRE(queue.post("red", [&gate] { gate.pass("red"); }).ok());
  const Status refused = queue.post("red", [] {});
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(),
             Contains("3 plans of tenant \"red\" are under way, and 3 are allowed"));
  CHECK(queue.post("blue", [] {}).ok());
  gate.open();
}

TEST_CASE("all that was posted is done when the queue is gone, tenants in turn") {
  std::vector<std::string> order;
  Gate gate;
  {
    WorkQueue queue("plans", {.threads = 1, .running_of_tenant = 1, .waiting_of_tenant = 9});
    REQUIRE(queue.post("z", [&gate] { gate.pass("z"); }).ok());
    gate.wait_for(1);
    for (const char* const tenant : {"a", "a", "b", "b", "c"}) {
      REQUIRE(queue.post(tenant, [&order, tenant] { order.emplace_back(tenant); }).ok());
    }
    gate.open();
  }
  CHECK(order == std::vector<std::string>{"a", "b", "c", "a", "b"});
}

TEST_CASE("work that rests between its steps holds no thread, and counts as under way") {
  std::atomic<bool> is_over = false;
  std::atomic<int> steps = 0;
  WorkQueue queue("snapshots", {.threads = 1, .running_of_tenant = 2, .waiting_of_tenant = 1});
  const auto step = [&]() -> std::optional<std::chrono::microseconds> {
    ++steps;
    if (is_over) return std::nullopt;
    return std::chrono::microseconds(100);
  };
  std::promise<void> third;
  for (int i = 0; i < 2; ++i) REQUIRE(queue.post_steps("red", step).ok());
  REQUIRE(queue.post("red", [&third] { third.set_value(); }).ok());
  CHECK_THAT(queue.post("red", [] {}).message(), Contains("3 snapshots of tenant \"red\""));
  for (int i = 0; i < 20; ++i) {
    std::promise<void> done;
    REQUIRE(queue.post("blue", [&done] { done.set_value(); }).ok());
    REQUIRE(done.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
  }
  auto waits = third.get_future();
  CHECK(waits.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  is_over = true;
  CHECK(waits.wait_for(std::chrono::minutes(2)) == std::future_status::ready);
  CHECK(steps >= 4);
}

TEST_CASE("work in steps is done when the queue is gone") {
  std::atomic<int> steps = 0;
  {
    WorkQueue queue("snapshots", {.threads = 4, .running_of_tenant = 2, .waiting_of_tenant = 9});
    for (const char* const tenant : {"red", "red", "red", "blue"}) {
      const auto step = [&steps, left = 5]() mutable -> std::optional<std::chrono::microseconds> {
        ++steps;
        if (--left == 0) return std::nullopt;
        return std::chrono::microseconds(50);
      };
      REQUIRE(queue.post_steps(tenant, step).ok());
    }
  }
  CHECK(steps == 20);
}

TEST_CASE("work that rests has a thread again though another's work took the one it had") {
  Gate gate;
  std::atomic<bool> is_over = false;
  std::promise<void> ended;
  WorkQueue queue("snapshots", {.threads = 2, .running_of_tenant = 1, .waiting_of_tenant = 1});
  const auto step = [&]() -> std::optional<std::chrono::microseconds> {
    if (!is_over) return std::chrono::microseconds(100);
    ended.set_value();
    return std::nullopt;
  };
  REQUIRE(queue.post_steps("red", step).ok());
  REQUIRE(queue.post("blue", [&gate] { gate.pass("blue"); }).ok());
  gate.wait_for(1);
  is_over = true;
  CHECK(ended.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
  gate.open();
}

TEST_CASE("work for which no thread can be made is refused, and later work is done") {
  WorkQueue queue("plans", {.threads = 2, .running_of_tenant = 2, .waiting_of_tenant = 9});
  {
    const NoThreads none;
    const Status refused = queue.post("red", [] { FAIL("it was refused"); });
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("no thread can be made for plans"));
  }
  std::promise<void> done;
  REQUIRE(queue.post("red", [&done] { done.set_value(); }).ok());
  REQUIRE(done.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
}

TEST_CASE("work for which there is no thread of its own waits for those that there are") {
  Gate gate;
  std::promise<void> done;
  WorkQueue queue("plans", {.threads = 2, .running_of_tenant = 2, .waiting_of_tenant = 9});
  REQUIRE(queue.post("red", [&gate] { gate.pass("red"); }).ok());
  gate.wait_for(1);
  {
    const NoThreads none;
    REQUIRE(queue.post("red", [&done] { done.set_value(); }).ok());
  }
  gate.open();
  REQUIRE(done.get_future().wait_for(std::chrono::minutes(2)) == std::future_status::ready);
}

}  // namespace
}  // namespace phub::testing
