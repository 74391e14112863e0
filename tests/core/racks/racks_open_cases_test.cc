// Racks that do not wait long for each other: what is pushed before a restored rack begins, rounds
// without a rack's first worker, and pushes that take the buffers of an exchange.
#include <algorithm>
#include <chrono>

#include "common/transport/tcp/frame.h"
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/open_racks.h"

namespace phub {
using testing::fill_gradients;
using testing::kNever;
using testing::kOpenSteps;
using testing::kSoon;
using testing::open_racks;
using testing::RacksOptions;
using testing::RacksRig;
using testing::rest;
using testing::run_alone;
using testing::train_alone;

namespace {

float at(RacksRig& rig, std::uint32_t rack, std::uint32_t worker, std::size_t i) {
  return reinterpret_cast<const float*>(rig.worker(rack, worker).parameters.data())[i];
}

}  // namespace

TEST_CASE("an outer step before a restored rack begins counts once", "[racks]") {
  RacksOptions options = open_racks(1, kSoon);
  options.rack_local.learning_rate = 2.0F;  // of a mean over two racks
  options.weight_decay = 0.0F;
  RacksRig rig(options);
  std::mt19937 random(3);
  rig.randomise(random);
  rig.round();
  const std::vector<std::byte> initial = rig.worker(0, 0).parameters;
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    auto copy = std::move(
        *server::JobCopy::create(*rig.plan, 0, server::state_arrays(options.rule, 0.0, true)));
    copy->round = 1;
    auto& copying = rig.job(rack).shard.updates.copying;
    REQUIRE(copying.begin(copy));
    REQUIRE(copying.copy_some(rig.job(rack).shard.chunks()) == 0);
    copying.end();
    options.initial.push_back(std::move(copy));
  }
  RacksRig restored(options);
  // Rack 1 makes its rounds while rack 0's workers are still starting.
  fill_gradients(restored, 1, 1.0F);
  constexpr std::uint32_t kMade = kOpenSteps;
  train_alone(restored, 1, 1 + kMade);  // the first one is that of the restored parameters
  fill_gradients(restored, 1, 0.0F);
  rest(restored, 0);
  // Now rack 0 begins. Nobody moves anything any more.
  fill_gradients(restored, 0, 0.0F);
  for (int again = 0; again < 4; ++again) {
    for (std::uint32_t rack = 0; rack < 2; ++rack) {
      train_alone(restored, rack, 2 * kOpenSteps);
      for (std::uint32_t other = 0; other < 2; ++other) rest(restored, other);
    }
  }
  const auto* const begin = reinterpret_cast<const float*>(initial.data());
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    for (const Chunk& chunk : restored.plan->chunks) {
      INFO("rack " << rack << ", root " << restored.root(chunk));
      double most = 0.0;
      double least = 1e9;
      for (std::uint64_t i = chunk.arena_offset; i < chunk.arena_offset + chunk.elements; ++i) {
        if (i % 4 != 1) continue;
        const double moved = begin[i] - at(restored, rack, 0, i);
        most = std::max(most, moved);
        least = std::min(least, moved);
      }
      CHECK(most < 0.5 * 0.25 * kMade + 1e-4);
      CHECK(least > 0.5 * 0.25 * kMade - 1e-4);
    }
  }
}

TEST_CASE("a rack's round without its first worker has the mean of those who came", "[racks]") {
  RacksOptions options = open_racks(1, kNever);
  options.workers = {2, 2};
  options.rounds = {.quorum = 1};
  RacksRig rig(options);
  rig.round();  // of initial parameters: zeros
  const std::uint32_t pusher = GENERATE(0U, 1U);
  INFO("worker " << pusher << " of rack 0 pushes alone");
  auto& gradients = rig.worker(0, pusher).gradients;
  std::vector<float> ones(gradients.size() / sizeof(float), 1.0F);
  std::memcpy(gradients.data(), ones.data(), gradients.size());
  const std::size_t due = rig.worker(0, pusher).replies + rig.plan->chunks.size();
  for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot)
    rig.worker(0, pusher).push(slot, RacksRig::epoch(0));
  run_alone(rig, 0, [&] { return rig.worker(0, pusher).replies == due; });
  CHECK(at(rig, 0, pusher, 0) == -0.5F);  // the learning rate times the mean of one push
}

// The workers of a job, all hostile, take every buffer of its pool with pushes that come twice; the
// server, which has other jobs too, must live.
TEST_CASE("pushes that come twice take no buffer that an exchange needs", "[racks]") {
  constexpr std::uint32_t kWorkers = 15;
  RacksOptions options = open_racks(1, kNever);
  options.rounds = {.quorum = 1, .late = LatePushes::kAdd};
  options.workers = {kWorkers, 1};
  options.keys = 1;
  options.key_elements = 1000;
  RacksRig rig(options);
  rig.round();
  constexpr std::uint32_t kLast = 0;  // whose push completes the round
  const auto push = [&](std::uint32_t worker, int times) {
    for (int i = 0; i < times; ++i) rig.worker(0, worker).push(0, RacksRig::epoch(0));
    rig.worker(0, worker).poll();
  };
  for (std::uint32_t round = 1; round < kOpenSteps; ++round) {
    push(round, 1);
    for (int i = 0; i < 100; ++i) rig.run_once();
  }
  REQUIRE(rig.job(0).shard.chunk(0).rounds == kOpenSteps);
  // As many as may wait here, and the beginning of one more.
  const auto bytes = static_cast<std::uint32_t>(options.key_elements * sizeof(float));
  const std::uint32_t immediate = wire::immediate(0, RacksRig::epoch(0));
  const transport::FrameHeader header{.magic = transport::kFrameMagic,
                                      .immediate = immediate,
                                      .bytes = bytes,
                                      .check = transport::frame_check(immediate, bytes)};
  const std::span<const transport::FrameHeader> headers(&header, 1);
  push(kLast, 3);
  rig.send_as_worker(0, kLast, std::as_bytes(headers));
  for (std::uint32_t worker = 1; worker < kWorkers; ++worker) {
    push(worker, 3);
    rig.send_as_worker(0, worker, std::as_bytes(headers));
  }
  for (int i = 0; i < 100; ++i) rig.core(0).run_once();
  CHECK(rig.job(0).shard.chunk(0).rounds > kOpenSteps);  // the server lives
}

}  // namespace phub
