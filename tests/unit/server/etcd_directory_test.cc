// A directory and an etcd that does what a real one seldom does. tests/integration/racks has a real
// one.
#include <fmt/format.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/etcd/rpc.grpc.pb.h"
#include "server/directory/directory.h"
#include "tests/support/hang_guard.h"

namespace phub::server {
namespace {

using namespace etcdserverpb;  // NOLINT(google-build-using-namespace): the fake is etcd's
using grpc::ServerContext;

constexpr std::int64_t kLastRevision = 40;

// Answers as it is told; changes are sent to every watch.
struct FakeEtcd final : KV::Service, Lease::Service, ::etcdserverpb::Watch::Service {
  FakeEtcd() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<KV::Service*>(this));
    builder.RegisterService(static_cast<Lease::Service*>(this));
    builder.RegisterService(static_cast<::etcdserverpb::Watch::Service*>(this));
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
  }
  ~FakeEtcd() override { server->Shutdown(std::chrono::system_clock::now()); }

  // Waits for what another thread does.
  template <typename Condition>
  bool until(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, testing::kHangGuard, condition);
  }
  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
  void send(Event::EventType type, const std::string& key) {
    WatchResponse response;
    response.mutable_header()->set_revision(kLastRevision);
    Event& event = *response.add_events();
    event.set_type(type);
    event.mutable_kv()->set_key(key);
    event.mutable_kv()->set_mod_revision(kLastRevision);
    set([&] { sent.push_back(response); });
  }

  grpc::Status Range(ServerContext*, const RangeRequest*, RangeResponse* response) override {
    const std::lock_guard lock(mutex);
    ++lists;
    response->mutable_header()->set_revision(kLastRevision);
    for (const std::string& key : keys) response->add_kvs()->set_key(key);
    response->set_count(static_cast<std::int64_t>(keys.size()));
    response->set_more(never_ends);
    changed.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status Put(ServerContext*, const PutRequest* request, PutResponse*) override {
    set([&] { puts.push_back(*request); });
    return grpc::Status::OK;
  }
  grpc::Status LeaseGrant(ServerContext*, const LeaseGrantRequest* request,
                          LeaseGrantResponse* response) override {
    set([&] {
      response->set_id(++leases);
      response->set_ttl(granted > 0 ? granted : request->ttl());
    });
    return grpc::Status::OK;
  }
  grpc::Status LeaseKeepAlive(
      ServerContext*,
      grpc::ServerReaderWriter<LeaseKeepAliveResponse, LeaseKeepAliveRequest>* stream) override {
    LeaseKeepAliveRequest request;
    while (stream->Read(&request)) {
      LeaseKeepAliveResponse response;
      set([&] {
        response.set_ttl(request.id() == forgotten ? 0 : granted > 0 ? granted : 2);
        ++beats;
      });
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status LeaseRevoke(ServerContext*, const LeaseRevokeRequest* request,
                           LeaseRevokeResponse*) override {
    set([&] { revoked = request->id(); });
    return grpc::Status::OK;
  }
  // What is sent before it began counts as old, but for the words that refuse it.
  grpc::Status Watch(ServerContext* context,
                     grpc::ServerReaderWriter<WatchResponse, WatchRequest>* stream) override {
    WatchRequest request;
    if (!stream->Read(&request)) return grpc::Status::OK;
    std::unique_lock lock(mutex);
    std::size_t at = sent.size();
    const int own = ++watches;
    changed.notify_all();
    while (!context->IsCancelled() && own > ended_watches) {
      if (at == sent.size()) {
        changed.wait_for(lock, std::chrono::milliseconds(20));
        continue;
      }
      const WatchResponse response = sent[at++];
      lock.unlock();
      stream->Write(response);
      lock.lock();
    }
    return grpc::Status::OK;
  }

  DirectoryOptions options() const {
    return {.rack = "a",
            .address = "127.0.0.1:0",
            .etcd = EtcdOptions{.endpoints = {fmt::format("127.0.0.1:{}", port)},
                                .prefix = "/racks",
                                .lease = std::chrono::seconds(2),
                                .timeout = std::chrono::milliseconds(1900)}};
  }

  int port = 0;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<std::string> keys;
  bool never_ends = false;
  std::vector<PutRequest> puts;
  std::vector<WatchResponse> sent;
  std::int64_t leases = 0;
  std::int64_t granted = 0;  // seconds, whatever is asked for; 0: that
  std::int64_t forgotten = 0;
  std::int64_t revoked = 0;
  int lists = 0;
  int beats = 0;
  int watches = 0;
  int ended_watches = 0;
  std::unique_ptr<grpc::Server> server;
};

struct Rig {
  Rig() {
    spdlog::set_level(spdlog::level::off);
    directory = std::move(*Directory::create(etcd.options()));
    directory->on_change([this, known = directory.get()] {  // also while it is being reset
      etcd.set([&] { racks = known->racks(); });
    });
  }
  void announce() {
    directory->announce("127.0.0.1:7400");
    REQUIRE(etcd.until([this] { return etcd.watches == 1; }));
  }
  bool knows(const std::vector<RackEntry>& expected) {
    return etcd.until([&] { return racks == expected; });
  }

  FakeEtcd etcd;
  std::vector<RackEntry> racks;  // as of the last change; guarded by etcd.mutex
  std::unique_ptr<Directory> directory;
};

const RackEntry kRackA{.name = "a", .servers = {"127.0.0.1:7400"}};
const RackEntry kRackB{.name = "b", .servers = {"10.0.0.2:1"}};
constexpr char kKeyOfB[] = "/racks/b/10.0.0.2:1";

TEST_CASE("a server registers by the port that it serves at, and is told of each change") {
  Rig rig;
  CHECK(rig.directory->racks().empty());
  CHECK(rig.directory->status().trouble == "etcd has not been asked yet");
  rig.announce();
  CHECK(rig.directory->own_address() == "127.0.0.1:7400");
  CHECK(rig.etcd.puts.at(0).key() == "/racks/a/127.0.0.1:7400");
  CHECK(rig.etcd.puts.at(0).lease() == 1);
  CHECK(rig.directory->status().trouble.empty());
  CHECK(rig.directory->racks() == std::vector{kRackA});
  rig.etcd.send(Event::PUT, kKeyOfB);
  CHECK(rig.knows({kRackA, kRackB}));
  rig.etcd.send(Event::DELETE, kKeyOfB);
  CHECK(rig.knows({kRackA}));
  rig.directory->on_change(nullptr);
  rig.etcd.send(Event::PUT, kKeyOfB);
  rig.directory.reset();
  CHECK(rig.racks == std::vector{kRackA});
  CHECK(rig.etcd.revoked == 1);
}

TEST_CASE("a watch that is refused, and one that ends, begin again with a list") {
  Rig rig;
  rig.announce();
  WatchResponse refusal;
  refusal.set_canceled(true);
  refusal.set_compact_revision(kLastRevision);
  rig.etcd.set([&] {
    rig.etcd.keys = {kKeyOfB};
    rig.etcd.sent.push_back(refusal);
  });
  CHECK(rig.knows({kRackA, kRackB}));
  CHECK(rig.etcd.until([&] { return rig.etcd.watches == 2; }));
  rig.etcd.set([&] {
    rig.etcd.keys = {};
    rig.etcd.ended_watches = 2;
  });
  CHECK(rig.knows({kRackA}));
  CHECK(rig.etcd.leases == 1);  // which has been kept
}

TEST_CASE("a lease that etcd has forgotten is replaced, and a key that is gone is put again") {
  Rig rig;
  rig.announce();
  rig.etcd.set([&] { rig.etcd.forgotten = 1; });
  REQUIRE(rig.etcd.until([&] { return rig.etcd.puts.size() == 2; }));
  CHECK(rig.etcd.puts.at(1).lease() == 2);
  rig.etcd.send(Event::DELETE, "/racks/a/127.0.0.1:7400");
  REQUIRE(rig.etcd.until([&] { return rig.etcd.puts.size() == 3; }));
  CHECK(rig.etcd.puts.at(2).key() == "/racks/a/127.0.0.1:7400");
  CHECK(rig.etcd.puts.at(2).lease() == 2);
}

// Its beats come as for the lease that was asked for, not after ages.
TEST_CASE("a lease that is said to last for ages is kept all the same") {
  Rig rig;
  rig.etcd.granted = GENERATE(std::int64_t{1} << 30, INT64_MAX);
  rig.announce();
  CHECK(rig.etcd.until([&] { return rig.etcd.beats >= 2; }));
}

TEST_CASE("keys that are no server's cost a list in a beat, not one for each") {
  Rig rig;
  rig.announce();
  rig.etcd.set([&] { rig.etcd.keys = {"/racks/x", kKeyOfB}; });
  for (int i = 0; i < 1000; ++i) rig.etcd.send(Event::PUT, "/racks/x");
  CHECK(rig.knows({kRackA, kRackB}));
  const std::lock_guard lock(rig.etcd.mutex);
  CHECK(rig.etcd.lists <= rig.etcd.beats + 1);
  CHECK(rig.directory->status().keys_left_out == 1);
}

TEST_CASE("a list that never ends is read to its bound") {
  Rig rig;
  rig.etcd.never_ends = true;
  for (int i = 0; i < 500; ++i) rig.etcd.keys.push_back(fmt::format("/racks/b/h{}:1", i));
  rig.announce();
  CHECK(rig.directory->racks().size() == 2);
  const std::lock_guard lock(rig.etcd.mutex);
  CHECK(rig.etcd.lists == 17);  // of 500 keys: the first from 8,192 on
}

TEST_CASE("a directory ends while changes come without end") {
  for (int i = 0; i < 20; ++i) {
    Rig rig;
    rig.announce();
    std::atomic<bool> is_over = false;
    std::thread changes([&] {
      for (int j = 0; !is_over; ++j) {
        rig.etcd.send(j % 2 == 0 ? Event::PUT : Event::DELETE, kKeyOfB);
      }
    });
    CHECK(rig.etcd.until([&] { return rig.racks.size() == 2; }));
    rig.directory.reset();
    is_over = true;
    changes.join();
    CHECK(rig.etcd.revoked == 1);
  }
}

}  // namespace
}  // namespace phub::server
