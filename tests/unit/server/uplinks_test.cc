// Links to racks that are not there, or reply late: what they wait for, what others hear meanwhile,
// and what is left of them.
#include "server/racks/uplinks.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/no_threads.h"
#include "tests/support/server/racks/fake_rack.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using namespace server;  // NOLINT(google-build-using-namespace)

constexpr std::chrono::minutes kHang{2};

// Keeps what a job's links say.
struct Events final : RackEvents {
  void on_delayed(std::uint64_t, const std::string& reason) override {
    const std::lock_guard lock(mutex);
    delay = reason;
    changed.notify_all();
  }
  void on_linked(std::uint64_t) override {
    const std::lock_guard lock(mutex);
    linked = "linked";
    changed.notify_all();
  }
  void on_unlinked(std::uint64_t, const std::string& reason) override {
    const std::lock_guard lock(mutex);
    end = reason;
    changed.notify_all();
  }
  void on_rack_lost(std::uint64_t, const std::string&, const std::string& reason) override {
    on_unlinked(0, reason);
  }
  void on_end_planned(std::uint64_t, const std::string& reason, std::uint64_t step) override {
    const std::lock_guard lock(mutex);
    planned_end = reason + ", step " + std::to_string(step);
    changed.notify_all();
  }

  std::string wait_for_delay() { return wait_for(delay); }
  std::string wait_for_end() { return wait_for(end); }
  bool wait_for_links() { return !wait_for(linked).empty(); }
  std::string wait_for(const std::string& told) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kHang, [&] { return !told.empty(); });
    return told;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string delay;
  std::string linked;
  std::string end;
  std::string planned_end;
};

// A server of rack a, of which nobody is there.
struct LonelyServer {
  explicit LonelyServer(
      const std::vector<RackEntry>& racks,
      std::chrono::milliseconds heartbeat_deadline = std::chrono::milliseconds(500))
      : directory(
            std::move(*Directory::create({.rack = "a", .address = "127.0.0.1:1", .racks = racks}))),
        uplinks({.heartbeat_deadline = heartbeat_deadline}, *directory) {
    for (const RackEntry& rack : racks) job_racks.push_back({rack.name, 1});
    uplinks.attach(data_plane, events);
  }

  // `gone`: nothing refers to the job's spec any more.
  LinkedRack job_of(std::size_t servers, std::promise<void>* gone = nullptr) const {
    auto* const spec = new JobSpec{.name = "demo", .keys = {{"w", 1000}}};
    spec->racks = job_racks;
    spec->workers = static_cast<std::uint32_t>(job_racks.size());
    return {.job_id = 1,
            .tenant = "default",
            .spec = std::shared_ptr<const JobSpec>(spec,
                                                   [gone](const JobSpec* ended) {
                                                     delete ended;
                                                     if (gone != nullptr) gone->set_value();
                                                   }),
            .cores_per_server = std::vector<std::uint32_t>(servers, 1)};
  }

  Events events;
  FakeDataPlane data_plane{1};
  std::unique_ptr<Directory> directory;
  std::vector<RackSpec> job_racks;
  Uplinks uplinks;
};

// Rack a, and those of these servers: b and so on.
std::vector<RackEntry> racks_with(const std::vector<std::unique_ptr<FakeRack>>& others) {
  std::vector<RackEntry> racks{{"a", {"127.0.0.1:1"}}};
  for (const auto& other : others) {
    racks.push_back({std::string(1, static_cast<char>('a' + racks.size())), {other->address}});
  }
  return racks;
}

std::vector<std::unique_ptr<FakeRack>> fake_racks(std::size_t count) {
  std::vector<std::unique_ptr<FakeRack>> racks(count);
  for (auto& rack : racks) rack = std::make_unique<FakeRack>();
  return racks;
}

const std::vector<RackEntry> kOneEach = {{"a", {"127.0.0.1:1"}}, {"b", {"127.0.0.1:2"}}};

}  // namespace

TEST_CASE(
    "a rack that a static list has not is refused: its place, those that are known, the cure") {
  LonelyServer server(kOneEach);
  CHECK(server.uplinks.check_racks({{"a", 1}, {"b", 1}}).ok());
  const Status refused = server.uplinks.check_racks({{"a", 1}, {"zz", 1}});
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message() ==
        "racks[1].name: this server knows no rack \"zz\", only a, b; take one of these, or list it "
        "in `directory` of every server's configuration and start the servers again");
}

TEST_CASE("a rack that an etcd has not may come later") {
  const auto directory = std::move(*Directory::create(
      {.rack = "a", .address = "127.0.0.1:1", .etcd = EtcdOptions{.endpoints = {"127.0.0.1:1"}}}));
  const Uplinks uplinks({}, *directory);
  CHECK(uplinks.check_racks({{"a", 1}, {"zz", 1}}).ok());
}

TEST_CASE("links that are over keep no keys: they count until they are gone") {
  LonelyServer server(kOneEach);
  std::promise<void> gone;
  REQUIRE(server.uplinks.open(server.job_of(1, &gone)).ok());
  server.events.wait_for_delay();
  server.uplinks.close(1, "it ended");
  CHECK(gone.get_future().wait_for(kHang) == std::future_status::ready);
}

TEST_CASE("links for which there is no thread are refused, and later ones are opened") {
  LonelyServer server(kOneEach);
  {
    const NoThreads none;
    const Status refused = server.uplinks.open(server.job_of(1));
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("no thread can be made for a job's links"));
  }
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  CHECK_THAT(server.events.wait_for_delay(), Contains("rack b (127.0.0.1:2)"));
}

TEST_CASE("what other racks' servers say is made fit for a line of a log") {
  FakeRack rude;
  rude.on_join = [](auto&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        "no\nevent=fake \x1b[31m" + std::string(3000, 'E'));
  };
  LonelyServer server({{"a", {"127.0.0.1:1"}}, {"b", {rude.address}}});
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  const std::string reason = server.events.wait_for_end();
  CHECK_THAT(reason, Contains("no event=fake") && Contains("EEE"));
  CHECK(reason.size() <= 1024 + 3);  // "..."
  CHECK(std::none_of(reason.begin(), reason.end(), [](char c) { return c < ' '; }));
}

TEST_CASE(
    "another rack's planned end is handed on, and that this one knows its last step is told") {
  std::atomic<std::uint64_t> known{0};
  std::promise<void> told;
  FakeRack other;
  other.on_heartbeat = [&](auto&, const auto& request, auto& reply) {
    reply.set_running(true);
    reply.set_ending("it\nis late");
    reply.set_last_step(12);
    if (known.exchange(request.known_last_step()) == 0 && request.known_last_step() == 12) {
      told.set_value();
    }
  };
  LonelyServer server({{"a", {"127.0.0.1:1"}}, {"b", {other.address}}});
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  CHECK(server.events.wait_for(server.events.planned_end) == "it is late, step 12");
  CHECK(known == 0);
  server.uplinks.know_end(1, 12);
  CHECK(told.get_future().wait_for(kHang) == std::future_status::ready);
}

// Else the one behind it would be taken for it, and be told a plan that is not its own.
TEST_CASE("while a server of a rack is missing in the directory none of them is joined") {
  LonelyServer server({{"a", {"127.0.0.1:1", "127.0.0.1:3"}}, {"b", {"127.0.0.1:2"}}});
  REQUIRE(server.uplinks.open(server.job_of(2)).ok());
  CHECK(server.events.wait_for_delay() ==
        "rack b (unknown): 1 of its servers are known, this rack has 2 in the job: racks have as "
        "many");
}

TEST_CASE("a server has the place that the directory gives it") {
  LonelyServer server({{"a", {"127.0.0.1:7", "127.0.0.1:1"}}, {"b", {"127.0.0.1:2"}}});
  CHECK(server.uplinks.check_place(1, 2).ok());
  const Status wrong = server.uplinks.check_place(0, 2);
  CHECK(wrong.code() == Code::kFailedPrecondition);
  CHECK_THAT(wrong.message(), Contains("server_index: 0, but 127.0.0.1:1 is server 1 of rack a"));
  // One of them is not known yet, and may be any.
  CHECK(server.uplinks.check_place(0, 3).ok());
}

// Each reply waits until all racks have heard as much: beats one after another would never come so
// far, since each would wait for the next one.
TEST_CASE("heartbeats go to all racks at once, however late each of them replies") {
  Heard heard;
  std::atomic<bool> was_given_up = false;
  const auto others = fake_racks(7);
  for (std::size_t rack = 0; rack < others.size(); ++rack) {
    const std::string name = std::to_string(rack);
    others[rack]->on_heartbeat = [&heard, &was_given_up, name](auto& call, auto&, auto&) {
      heard.add(name);
      if (heard.times(name) > 3) return;
      if (!heard.wait_for_all(7, heard.times(name), call)) was_given_up = true;
    };
  }
  LonelyServer server(racks_with(others), kHang);
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  for (std::size_t rack = 0; rack < others.size(); ++rack) {
    CHECK(heard.wait(std::to_string(rack), 4));
  }
  CHECK_FALSE(was_given_up);
}

TEST_CASE("a rack that is slow to join or to connect keeps no heartbeat from another") {
  Heard heard;
  std::atomic<bool> is_heard = true;
  const auto others = fake_racks(2);
  others[0]->on_heartbeat = [&](auto&, auto&, auto&) { heard.add("b"); };
  const auto hear_more = [&] {
    if (!heard.wait("b", heard.times("b") + 3)) is_heard = false;
  };
  others[1]->on_join = [&](auto&) {
    hear_more();
    return grpc::Status();
  };
  LonelyServer server(racks_with(others), kHang);
  server.data_plane.on_connect_rack = [&](const RackTarget& target) {
    if (target.rack == 2) hear_more();
  };
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  CHECK(server.events.wait_for_links());
  CHECK(is_heard);
}

TEST_CASE("a rack that stands is lost by its own deadline, and says its name") {
  Heard heard;
  const auto others = fake_racks(2);
  others[0]->on_heartbeat = [&](auto& call, auto&, auto&) { heard.wait_for_all(9, 1, call); };
  others[1]->on_heartbeat = [&](auto&, auto&, auto&) { heard.add("c"); };
  LonelyServer server(racks_with(others));
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  CHECK(server.events.wait_for_end() ==
        "rack b (" + others[0]->address + ") is lost: it did not reply for 500 ms");
}

TEST_CASE(
    "a rack that starts from another round's snapshot is refused, and both rounds are named") {
  const auto others = fake_racks(2);
  for (const auto& other : others) other->rounds_before = 25;
  LonelyServer server(racks_with(others), kHang);
  LinkedRack job = server.job_of(1);
  SECTION("by one of the same round it is not") {
    job.rounds_before = 25;
    REQUIRE(server.uplinks.open(job).ok());
    CHECK(server.events.wait_for_links());
  }
  SECTION("by one of a new job it is") {
    REQUIRE(server.uplinks.open(job).ok());
    CHECK_THAT(server.events.wait_for_end(),
               Contains("rack b (" + others[0]->address + "): job demo has 25 rounds behind it " +
                        "there and 0 in rack a: restore the snapshots of one round"));
  }
}

TEST_CASE("a rack is told that this one is complete, and tells why the job ended there") {
  const auto others = fake_racks(2);
  others[1]->on_heartbeat = [](auto&, const control::HeartbeatRequest& request,
                               control::HeartbeatReply& reply) {
    reply.set_running(!request.rack_is_complete());
    reply.set_reason("worker 1 was lost");
  };
  LonelyServer server(racks_with(others), kHang);
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  CHECK(server.events.wait_for_links());
  server.uplinks.complete(1);
  CHECK(server.events.wait_for_end() == "rack c: worker 1 was lost");
}

}  // namespace phub::testing
