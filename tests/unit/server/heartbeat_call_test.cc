// What a heartbeat leaves to gRPC's threads.
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "common/rendezvous/rendezvous.h"
#include "tests/support/server/fake_rack.h"

namespace phub::testing {

// A channel that ends in the thread that completes its calls is torn down under that thread, which
// waits for itself: the thread sanitizer finds it in the end.
TEST_CASE("a heartbeat's call has let go of the channel when its reply is told") {
  static constexpr std::chrono::minutes kLimit{2};
  const FakeRack rack;
  auto server = std::move(*client::Rendezvous::create(rack.address));
  REQUIRE(server->join({.name = "demo", .workers = 1, .keys = {{"w", 10}}}, kLimit));

  std::promise<bool> told;
  std::promise<void> gone;
  const auto left = std::make_shared<std::promise<void>>();
  // The last of `done`, before the rest of what gRPC's thread keeps of the call.
  std::shared_ptr<void> last(nullptr, [&gone, left](void*) {
    gone.get_future().wait_for(kLimit);
    left->set_value();
  });
  auto cancel = server->begin_heartbeat(
      kLimit, false, [&told, last = std::move(last)](const Result<client::Beat>& beat) {
        told.set_value(beat && beat->running);
      });
  CHECK(told.get_future().get());
  cancel = nullptr;
  server = nullptr;
  gone.set_value();
  CHECK(left->get_future().wait_for(kLimit) == std::future_status::ready);
}

}  // namespace phub::testing
