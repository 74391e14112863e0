// Which frames may pass, with a clock that stands still until it is moved.
#include "server/door/pump/frame_gate.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>

namespace phub::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Verdict = FrameGate::Verdict;

// Prices that no test of something else reaches.
constexpr GateLimits kRich{
    .streams = 4, .bytes = 1000, .price_per_second = 1e6, .price_burst = 1e6};

struct GateRig {
  FrameGate::Clock::time_point now{};
  FrameGate gate;

  explicit GateRig(const GateLimits& limits = kRich) : gate(now, limits) {}

  Verdict send(FrameType type, std::uint32_t stream, std::uint32_t length = 0, unsigned flags = 0) {
    return gate.admit({.length = length,
                       .type = type,
                       .flags = static_cast<std::uint8_t>(flags),
                       .stream = stream},
                      now);
  }
  Verdict call(std::uint32_t stream) { return send(FrameType::kHeaders, stream, 100, 4); }
  Verdict give_up(std::uint32_t stream) { return send(FrameType::kReset, stream, 4); }
  void answer(std::uint32_t stream) {
    gate.on_reply({.type = FrameType::kHeaders, .flags = 5, .stream = stream});
  }
};

}  // namespace

TEST_CASE("a call more than there may be waits until one has its answer") {
  GateRig rig;
  for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) CHECK(rig.call(stream) == Verdict::kPass);
  CHECK(rig.call(9) == Verdict::kHold);
  CHECK(rig.gate.waits_for_room());
  rig.gate.on_reply({.type = FrameType::kData, .stream = 3});  // which goes on
  CHECK(rig.call(9) == Verdict::kHold);
  rig.answer(3);
  CHECK(rig.call(9) == Verdict::kPass);
  CHECK(rig.call(11) == Verdict::kHold);
  rig.gate.on_reply({.length = 4, .type = FrameType::kReset, .stream = 1});
  CHECK(rig.call(11) == Verdict::kPass);
}

TEST_CASE("a call that is given up counts for another second") {
  GateRig rig;
  for (const std::uint32_t stream : {1U, 3U, 5U, 7U}) {
    CHECK(rig.call(stream) == Verdict::kPass);
    CHECK(rig.give_up(stream) == Verdict::kPass);
  }
  CHECK(rig.call(9) == Verdict::kHold);
  CHECK(rig.gate.wait(rig.now) == 1s);
  rig.now += 999ms;
  CHECK(rig.call(9) == Verdict::kHold);
  rig.now += 1ms;
  CHECK(rig.call(9) == Verdict::kPass);
}

TEST_CASE("resets of calls that there are not, and trailers, cost no call") {
  GateRig rig;
  for (std::uint32_t i = 0; i < 100; ++i) CHECK(rig.give_up(99) == Verdict::kPass);
  for (std::uint32_t i = 0; i < 100; ++i) CHECK(rig.call(1) == Verdict::kPass);
  for (const std::uint32_t stream : {3U, 5U, 7U}) CHECK(rig.call(stream) == Verdict::kPass);
}

TEST_CASE("a header block has 16 KiB and nothing between its frames") {
  GateRig rig;
  const auto block = [&](std::uint32_t first, std::uint32_t then) {
    rig = GateRig();
    CHECK(rig.send(FrameType::kHeaders, 1, first) == Verdict::kPass);
    return rig.send(FrameType::kContinuation, 1, then);
  };
  CHECK(block(16'000, 384) == Verdict::kPass);
  CHECK(block(16'000, 385) == Verdict::kEnd);
  CHECK_THAT(std::string(rig.gate.reason()), Contains("16 KiB"));
  CHECK(rig.send(FrameType::kHeaders, 3, 16'385, 4) == Verdict::kEnd);
  for (const FrameType between : {FrameType::kData, FrameType::kPing, FrameType::kHeaders}) {
    block(1, 1);
    CHECK(rig.send(between, 1) == Verdict::kEnd);
  }
  block(1, 1);
  CHECK(rig.send(FrameType::kContinuation, 3) == Verdict::kEnd);  // another's
  block(1, 1);
  for (int i = 0; i < 6; ++i) CHECK(rig.send(FrameType::kContinuation, 1) == Verdict::kPass);
  CHECK(rig.send(FrameType::kContinuation, 1) == Verdict::kEnd);
  rig = GateRig();
  CHECK(rig.send(FrameType::kContinuation, 1) == Verdict::kEnd);  // of nothing
}

TEST_CASE("what no client sends ends the connection") {
  for (const auto& [type, stream, length] :
       {std::tuple(FrameType::kHeaders, 2U, 10U), std::tuple(FrameType::kHeaders, 0U, 10U),
        std::tuple(FrameType::kPushPromise, 1U, 10U), std::tuple(FrameType::kSettings, 0U, 198U),
        std::tuple(FrameType::kPing, 0U, 1025U), std::tuple(FrameType::kGoAway, 0U, 1025U),
        std::tuple(FrameType{0x42}, 0U, 1025U)}) {
    INFO(static_cast<int>(type));
    GateRig rig;
    CHECK(rig.send(type, stream, length) == Verdict::kEnd);
  }
}

TEST_CASE("what wants a reply waits until the client has taken earlier ones") {
  GateRig rig;
  const auto sends = [&](FrameType type) {
    return rig.send(type, 0, type == FrameType::kPing ? 8 : 0);
  };
  for (int i = 0; i < 4; ++i) {
    CHECK(sends(FrameType::kPing) == Verdict::kPass);
    CHECK(sends(FrameType::kSettings) == Verdict::kPass);
  }
  CHECK(sends(FrameType::kPing) == Verdict::kHold);
  CHECK(sends(FrameType::kSettings) == Verdict::kHold);
  for (int i = 0; i < 100; ++i) {  // the client's own replies are none that it waits for
    CHECK(rig.send(FrameType::kPing, 0, 8, 1) == Verdict::kPass);
    CHECK(rig.send(FrameType::kSettings, 0, 0, 1) == Verdict::kPass);
  }
  rig.gate.on_reply({.length = 8, .type = FrameType::kPing, .flags = 0});  // gRPC's own
  rig.gate.on_replies_taken();
  CHECK(sends(FrameType::kPing) == Verdict::kHold);
  rig.gate.on_reply({.length = 8, .type = FrameType::kPing, .flags = 1});
  CHECK(sends(FrameType::kPing) == Verdict::kHold);  // not sent on yet
  rig.gate.on_replies_taken();
  CHECK(sends(FrameType::kPing) == Verdict::kPass);
  CHECK(sends(FrameType::kPing) == Verdict::kHold);
}

TEST_CASE("requests that do not end wait beyond their bytes, a whole one is never too long") {
  GateRig rig;
  CHECK(rig.call(1) == Verdict::kPass);
  CHECK(rig.call(3) == Verdict::kPass);
  CHECK(rig.send(FrameType::kData, 1, 600) == Verdict::kPass);
  CHECK(rig.send(FrameType::kData, 3, 401) == Verdict::kHold);
  CHECK(rig.send(FrameType::kData, 3, 400) == Verdict::kPass);
  rig.answer(1);
  CHECK(rig.send(FrameType::kData, 3, 600) == Verdict::kPass);
  CHECK(rig.send(FrameType::kData, 3, 1) == Verdict::kHold);
  CHECK(rig.give_up(3) == Verdict::kPass);
  CHECK(rig.call(5) == Verdict::kPass);
  CHECK(rig.send(FrameType::kData, 5, 1000) == Verdict::kPass);
}

TEST_CASE("each frame has a price, and time brings more") {
  GateRig rig({.streams = 1000, .bytes = 1000, .price_per_second = 10, .price_burst = 20});
  CHECK(rig.call(1) == Verdict::kPass);
  CHECK(rig.call(3) == Verdict::kPass);
  CHECK(rig.call(5) == Verdict::kHold);
  CHECK_FALSE(rig.gate.waits_for_room());
  CHECK(rig.gate.wait(rig.now) == 400ms);
  for (int i = 0; i < 4; ++i) CHECK(rig.send(FrameType{0x42}, 0) == Verdict::kPass);
  CHECK(rig.send(FrameType::kData, 1) == Verdict::kHold);
  rig.now += 100ms;
  CHECK(rig.send(FrameType::kData, 1) == Verdict::kPass);
  rig.gate.raise(rig.now, kRich);
  CHECK(rig.call(5) == Verdict::kPass);
}

}  // namespace phub::server
