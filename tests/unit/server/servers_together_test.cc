// What a worker asks of many servers it asks of all at once: however late each replies, none waits
// for another.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/rendezvous/heartbeats.h"
#include "common/rendezvous/membership.h"
#include "tests/support/server/racks/fake_rack.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::chrono::minutes kPatience{2};
constexpr std::size_t kServers = 14;
const JobSpec kJob{.name = "demo", .workers = 1, .keys = {{"w", 10}}};

struct ManyServers {
  ManyServers() {
    for (auto& server : servers) {
      server = std::make_unique<FakeRack>();
      addresses.push_back(server->address);
    }
  }

  // A reply waits until `all` servers have heard a call of this kind.
  std::function<void(FakeRack::Context&)> together(Heard& heard, std::size_t server,
                                                   std::size_t all) {
    return [this, &heard, name = std::to_string(server), all](FakeRack::Context& call) {
      heard.add(name);
      if (!heard.wait_for_all(all, 1, call)) was_given_up = true;
    };
  }

  std::vector<std::unique_ptr<FakeRack>> servers = std::vector<std::unique_ptr<FakeRack>>(kServers);
  std::vector<std::string> addresses;
  std::atomic<bool> was_given_up = false;
};

}  // namespace

TEST_CASE("a worker joins, agrees, starts and leaves at all servers at once") {
  Heard joins;
  Heard plans;
  Heard starts;
  Heard leaves;
  ManyServers many;
  for (std::size_t server = 0; server < kServers; ++server) {
    FakeRack& fake = *many.servers[server];
    // The first one gives the worker its index.
    if (server > 0) {
      fake.on_join = [join = many.together(joins, server, kServers - 1)](auto& call) {
        join(call);
        return grpc::Status();
      };
    }
    fake.on_ready = many.together(plans, server, kServers);
    fake.on_start = many.together(starts, server, kServers);
    fake.on_leave = many.together(leaves, server, kServers);
  }
  const auto membership = client::join_all(many.addresses, kJob, kPatience);
  REQUIRE(membership);
  REQUIRE(client::agree_on_plan(*membership, kJob, kPatience));
  const std::vector<std::string> reasons(kServers, "a test");
  CHECK(client::start_all(*membership, kJob.name, reasons, kPatience).ok());
  client::leave_all(*membership);
  for (std::size_t server = 0; server < kServers; ++server) {
    CHECK(leaves.wait(std::to_string(server), 1));
  }
}

TEST_CASE("a worker beats at all servers at once") {
  Heard heard;
  ManyServers many;
  for (std::size_t server = 0; server < kServers; ++server) {
    const std::string name = std::to_string(server);
    many.servers[server]->on_heartbeat = [&, name](auto& call, auto&, auto&) {
      heard.add(name);
      const int times = heard.times(name);
      if (times <= 3 && !heard.wait_for_all(kServers, times, call)) many.was_given_up = true;
    };
  }
  auto membership = client::join_all(many.addresses, kJob, kPatience);
  REQUIRE(membership);
  const client::Heartbeats beats(*membership, kPatience);
  for (std::size_t server = 0; server < kServers; ++server) {
    CHECK(heard.wait(std::to_string(server), 4));
  }
  CHECK_FALSE(many.was_given_up);
  CHECK_FALSE(beats.failed());
}

TEST_CASE("the first server that says the job is over ends all heartbeats") {
  ManyServers many;
  std::atomic<bool> is_over = false;
  many.servers[5]->on_heartbeat = [&](auto&, auto&, control::HeartbeatReply& reply) {
    reply.set_running(!is_over);
    reply.set_reason("worker 1 was lost");
    reply.add_workers_left(1);
  };
  auto membership = client::join_all(many.addresses, kJob, kPatience);
  REQUIRE(membership);
  const client::Heartbeats beats(*membership, kPatience);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!beats.someone_left() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK_THAT(beats.leavers().message(), Contains("worker 1 left the job"));
  CHECK_FALSE(beats.failed());
  is_over = true;
  while (!beats.failed() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(beats.failure().code() == Code::kAborted);
  CHECK(beats.failure().message() == "worker 1 was lost");
}

TEST_CASE("workers that the job goes on without are known, whichever server says so") {
  ManyServers many;
  for (const std::uint32_t server : {3U, 9U}) {
    many.servers[server]->on_heartbeat = [=](auto&, auto&, control::HeartbeatReply& reply) {
      reply.set_running(true);
      reply.add_workers_lost(server);
    };
  }
  auto membership = client::join_all(many.addresses, kJob, kPatience);
  REQUIRE(membership);
  const client::Heartbeats beats(*membership, kPatience);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (beats.lost().size() < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  CHECK(beats.lost() == std::vector<std::uint32_t>{3, 9});
  CHECK_FALSE(beats.someone_left());
}

TEST_CASE("a stop ends a start that waits for others, at all servers at once") {
  Heard starts;
  ManyServers many;
  for (std::size_t server = 0; server < kServers; ++server) {
    // So many servers there are not: only the end of the call ends it.
    many.servers[server]->on_start = many.together(starts, server, kServers + 1);
  }
  std::stop_source stop;
  auto membership =
      client::join_all(many.addresses, kJob, kPatience, {}, -1, nullptr, stop.get_token());
  REQUIRE(membership);
  std::jthread interrupts([&] {
    for (std::size_t server = 0; server < kServers; ++server) {
      starts.wait(std::to_string(server), 1);
    }
    stop.request_stop();
  });
  const std::vector<std::string> reasons(kServers, "a test");
  const Status ended = client::start_all(*membership, kJob.name, reasons, kPatience);
  CHECK(ended.code() == Code::kAborted);
  CHECK_THAT(ended.message(), Contains("interrupted while it waited for phub-server"));
}

}  // namespace phub::testing
