// What a heartbeat leaves to gRPC's threads.
#include <grpcpp/client_context.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "common/rendezvous/rendezvous.h"
#include "tests/support/server/racks/fake_rack.h"

namespace phub::testing {
namespace {

// Contexts of calls, each of which holds its channel.
class Contexts final : public grpc::ClientContext::GlobalCallbacks {
 public:
  void DefaultConstructor(grpc::ClientContext*) override { ++alive; }
  void Destructor(grpc::ClientContext*) override { --alive; }

  std::atomic<int> alive{0};
};

}  // namespace

// A channel whose last holder is a call ends in the thread that completes calls, which is torn down
// with it and waits for itself.
TEST_CASE("a heartbeat's call has let go of the channel when its reply is told") {
  static constexpr std::chrono::minutes kLimit{2};
  static Contexts contexts;  // until the process ends, and set once
  grpc::ClientContext::SetGlobalCallbacks(&contexts);
  std::promise<void> begun;
  FakeRack rack;
  rack.on_heartbeat = [&](auto&, auto&, auto&) { begun.get_future().wait_for(kLimit); };
  const auto server = std::move(*client::Rendezvous::create(rack.address));
  REQUIRE(server->join({.name = "demo", .workers = 1, .keys = {{"w", 10}}}, kLimit));
  const int before = contexts.alive;
  const auto alive = std::make_shared<std::promise<int>>();
  server->begin_heartbeat(
      kLimit, false, [alive](const Result<client::Beat>&) { alive->set_value(contexts.alive); });
  begun.set_value();
  CHECK(alive->get_future().get() == before);
}

}  // namespace phub::testing
