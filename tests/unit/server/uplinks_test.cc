// Links to racks that are not there: what they wait for, and what is left of them.
#include "server/racks/uplinks.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/no_threads.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using namespace server;  // NOLINT(google-build-using-namespace)

constexpr std::chrono::minutes kHang{2};

// Keeps why a job's links are delayed.
struct Events final : RackEvents {
  void on_delayed(std::uint64_t, const std::string& reason) override {
    const std::lock_guard lock(mutex);
    delay = reason;
    changed.notify_all();
  }
  void on_linked(std::uint64_t) override {}
  void on_unlinked(std::uint64_t, const std::string& reason) override {
    const std::lock_guard lock(mutex);
    end = reason;
    changed.notify_all();
  }

  std::string wait_for_delay() { return wait_for(delay); }
  std::string wait_for_end() { return wait_for(end); }
  std::string wait_for(const std::string& told) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kHang, [&] { return !told.empty(); });
    return told;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string delay;
  std::string end;
};

// A server that refuses every join with these words.
class RudeServer final : public control::Rendezvous::Service {
 public:
  explicit RudeServer(std::string words) : words_(std::move(words)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  grpc::Status Join(grpc::ServerContext*, grpc::ServerReader<control::JoinRequest>*,
                    control::JoinReply*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, words_};
  }
  std::string address;

 private:
  const std::string words_;
  std::unique_ptr<grpc::Server> server_;
};

// A server of rack a, of which nobody is there.
struct LonelyServer {
  explicit LonelyServer(std::vector<RackEntry> racks)
      : directory(std::move(*Directory::create(
            {.rack = "a", .address = "127.0.0.1:1", .racks = std::move(racks)}))) {
    uplinks.attach(data_plane, events);
  }

  // `gone`: nothing refers to the job's spec any more.
  LinkedRack job_of(std::size_t servers, std::promise<void>* gone = nullptr) const {
    auto* const spec = new JobSpec{.name = "demo", .workers = 2, .keys = {{"w", 1000}}};
    spec->racks = {{"a", 1}, {"b", 1}};
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
  Uplinks uplinks{{.heartbeat_deadline = std::chrono::milliseconds(500)}, *directory};
};

const std::vector<RackEntry> kOneEach = {{"a", {"127.0.0.1:1"}}, {"b", {"127.0.0.1:2"}}};

}  // namespace

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
  const RudeServer rude("no\nevent=fake \x1b[31m" + std::string(3000, 'E'));
  LonelyServer server({{"a", {"127.0.0.1:1"}}, {"b", {rude.address}}});
  REQUIRE(server.uplinks.open(server.job_of(1)).ok());
  const std::string reason = server.events.wait_for_end();
  CHECK_THAT(reason, Contains("no event=fake") && Contains("EEE"));
  CHECK(reason.size() <= 1024 + 3);  // "..."
  CHECK(std::none_of(reason.begin(), reason.end(), [](char c) { return c < ' '; }));
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

}  // namespace phub::testing
