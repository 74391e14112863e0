// Racks that are joined: sums have the bits of one fold in the documented order, over every shape.
#include <cmath>
#include <cstring>

#include "bench/delay/delayed_endpoint.h"
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Every worker everywhere has the fold's bits.
void check_sums(RacksRig& rig) {
  for (const Chunk& chunk : rig.plan->chunks) {
    const std::vector<float> expected = rig.fold(chunk, rig.root(chunk));
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      REQUIRE(are_same(rig.values(worker.parameters, chunk), expected));
    });
  }
}

TEST_CASE("sums over racks have the bits of one fold", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                              RackShape::kHybrid, RackShape::kTree, RackShape::kNested);
  const auto workers =
      GENERATE(std::vector<std::uint32_t>{2, 2}, std::vector<std::uint32_t>{1, 3, 2},
               std::vector<std::uint32_t>{1, 1, 2, 1, 1, 1, 1, 3, 1});
  const std::chrono::microseconds delay(GENERATE(0, 200));
  INFO(name_of(shape) << ", " << workers.size() << " racks, " << delay.count() << " us");
  RacksRig rig({.workers = workers, .shape = shape, .tcp_front = bench::delayed_by(delay)});
  std::mt19937 random(workers.size());
  for (int round = 0; round < 3; ++round) {
    rig.randomise(random);
    rig.round();
    check_sums(rig);
  }
}

TEST_CASE("roots are spread over the racks", "[racks]") {
  RacksRig rig({.workers = {1, 1, 1}});
  std::vector<int> roots(3);
  for (const Chunk& chunk : rig.plan->chunks) ++roots[rig.root(chunk)];
  CHECK(roots == std::vector<int>(3, 8));
}

TEST_CASE("16-bit pushes are added up in fp32 over racks", "[racks]") {
  RacksRig rig({.workers = {2, 1, 2}, .wire_type = DataType::kBfloat16});
  std::mt19937 random(7);
  rig.randomise(random);
  rig.round();
  for (const Chunk& chunk : rig.plan->chunks) {
    const std::vector<float> sum = rig.fold(chunk, rig.root(chunk));
    std::vector<std::byte> narrow(sum.size() * 2);
    kernels::convert(narrow.data(), DataType::kBfloat16,
                     reinterpret_cast<const std::byte*>(sum.data()), DataType::kFloat32,
                     sum.size());
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      REQUIRE(std::memcmp(worker.parameters.data() + chunk.arena_offset * 2, narrow.data(),
                          narrow.size()) == 0);
    });
  }
}

// Rounds of one gradient: what is lost of each is in the next, so their sum is off by one rounding.
TEST_CASE("what rounding leaves of a rack's sum goes up in the next round", "[racks]") {
  RacksRig rig({.workers = {1, 2, 1}, .rack_wire_type = DataType::kBfloat16});
  std::mt19937 random(13);
  rig.randomise(random);
  constexpr int kRounds = 16;
  std::map<std::uint32_t, std::vector<double>> totals;
  for (int round = 0; round < kRounds; ++round) {
    rig.round();
    for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
      const std::vector<float> got = rig.values(rig.worker(0, 0).parameters, rig.plan->chunks[id]);
      totals[id].resize(got.size());
      for (std::size_t i = 0; i < got.size(); ++i) totals[id][i] += static_cast<double>(got[i]);
      rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
        REQUIRE(are_same(rig.values(worker.parameters, rig.plan->chunks[id]), got));
      });
    }
  }
  bool is_rounded = false;
  for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
    const Chunk& chunk = rig.plan->chunks[id];
    const std::vector<float> exact = rig.fold(chunk, rig.root(chunk));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      // Two racks push at most 2 + its rest, of which bfloat16 keeps 8 bits.
      const double off = std::abs(totals[id][i] - kRounds * static_cast<double>(exact[i]));
      REQUIRE(off <= 2 * 4.0 / 256);
      is_rounded = is_rounded || off > 0;
    }
  }
  CHECK(is_rounded);
}

// What an update leaves at every worker, after worker 0's initial parameters, is what a rule makes
// of the fold, with the hyper-parameters that worker 0 sent.
TEST_CASE("a rule's updates are made once, with worker 0's words", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                              RackShape::kHybrid, RackShape::kTree, RackShape::kNested);
  const auto workers =
      GENERATE(std::vector<std::uint32_t>{2, 1}, std::vector<std::uint32_t>{1, 1, 1, 1, 1, 2});
  INFO(name_of(shape) << ", " << workers.size() << " racks");
  RacksRig rig({.workers = workers, .shape = shape, .rule = RuleKind::kMomentum});
  std::mt19937 random(11);
  rig.randomise(random);
  std::map<std::uint32_t, std::vector<float>> parameters;
  std::map<std::uint32_t, std::vector<float>> state;
  for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
    parameters[id] = rig.values(rig.worker(0, 0).gradients, rig.plan->chunks[id]);
    state[id].assign(parameters[id].size(), 0.0F);
  }
  rig.round();
  for (int round = 0; round < 3; ++round) {
    const Hyper hyper{.learning_rate = 0.1F + static_cast<float>(round),
                      .momentum = 0.5F,
                      .gradient_scale = 0.5F};
    rig.randomise(random);
    rig.send_hyper(hyper);
    rig.round();
    for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
      const Chunk& chunk = rig.plan->chunks[id];
      const std::vector<float> sum = rig.fold(chunk, rig.root(chunk));
      const kernels::Source source{reinterpret_cast<const std::byte*>(sum.data()),
                                   DataType::kFloat32};
      kernels::update({.sources = {&source, 1},
                       .elements = chunk.elements,
                       .rule = RuleKind::kMomentum,
                       .hyper = hyper,
                       .weight_decay = 0.01F,
                       .parameters = parameters[id].data(),
                       .state = state[id].data()});
      rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
        REQUIRE(are_same(rig.values(worker.parameters, chunk), parameters[id]));
      });
    }
  }
}

TEST_CASE("a vote of one rack counts in all", "[racks]") {
  RacksRig rig({.workers = {2, 1, 1},
                .rule = RuleKind::kSgd,
                .wire_type = DataType::kFloat16,
                .loss_scale = {LossScaling::kVoted, 1.0F}});
  std::mt19937 random(3);
  rig.randomise(random);
  rig.round();
  const std::vector<std::byte> before = rig.worker(2, 0).parameters;
  rig.push_all();
  rig.vote_all(2.0F, /*rack_against=*/1);
  rig.finish();
  rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
    CHECK(worker.skipped == rig.plan->chunks.size());
    CHECK(worker.parameters == before);
  });
  rig.push_all();
  rig.vote_all(2.0F);
  rig.finish();
  rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
    CHECK(worker.skipped == rig.plan->chunks.size());
    CHECK(worker.parameters == rig.worker(0, 0).parameters);
    CHECK(worker.parameters != before);
  });
}

// A static scale has sums that wait, as votes have.
TEST_CASE("votes that nobody asked for go up to no rack", "[racks]") {
  RacksRig rig({.workers = {1, 1},
                .rule = RuleKind::kSgd,
                .wire_type = DataType::kFloat16,
                .loss_scale = {LossScaling::kStatic, 1.0F}});
  std::mt19937 random(3);
  rig.randomise(random);
  rig.round();
  const std::uint64_t before = rig.job(1).worker_counters[rig.seat(1, 0)].bytes_received.value();
  const std::uint64_t sent = rig.job(0).above_counters[1].bytes_sent.value();
  rig.vote_all(1.0F);
  for (int i = 0; i < 100; ++i) rig.run_once();
  for (const std::uint32_t rack : {0U, 1U}) {
    INFO("rack " << rack);
    // The own worker is who is at fault, not the other rack.
    const auto event = rig.core(rack).next_event();
    REQUIRE(event);
    CHECK(event->worker == 0);
    CHECK(event->reason == "it voted in a job without votes");
    CHECK_FALSE(rig.core(rack).next_event());
  }
  CHECK(rig.job(0).above_counters[1].bytes_sent.value() == sent);
  CHECK(rig.job(1).worker_counters[rig.seat(1, 0)].bytes_received.value() == before);
}

// Of three racks, one that is not above a chunk replies to it in time and size, with zeros.
TEST_CASE("a reply from a rack that is not above its chunk is dropped", "[racks]") {
  RacksRig rig({.workers = {1, 1, 1}, .has_stranger = true});
  std::uint32_t slot = 0;
  while (rig.root(rig.plan->chunks[slot]) != 1) ++slot;
  rig.push(0, slot);
  for (int i = 0; i < 100; ++i) rig.run_once();
  REQUIRE(rig.job(0).shard.chunk(slot).is_above());
  rig.reply_as_stranger(slot);
  for (int i = 0; i < 100; ++i) rig.run_once();
  CHECK(rig.worker(0, 0).replies == 0);
  CHECK(rig.job(0).shard.stopped());
  const auto event = rig.core(0).next_event();
  REQUIRE(event);
  CHECK(event->worker == rig.seat(0, 2));
  CHECK(event->reason == "its connection broke the protocol");
}

TEST_CASE("lars has the same bits in every rack", "[racks]") {
  RacksRig rig({.workers = {1, 2}, .rule = RuleKind::kLars, .key_elements = 3000});
  std::mt19937 random(5);
  for (int round = 0; round < 3; ++round) {
    rig.randomise(random);
    rig.round();
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      REQUIRE(worker.parameters == rig.worker(0, 0).parameters);
    });
  }
}

TEST_CASE("a rack that is lost stops its job in the others", "[racks]") {
  RacksRig rig({.workers = {1, 1, 1}});
  rig.core(1).attachments().detach(&rig.job(1));
  for (int i = 0; i < 100; ++i) rig.run_once();
  for (const std::uint32_t rack : {0U, 2U}) {
    CHECK(rig.job(rack).shard.stopped());
    const auto event = rig.core(rack).next_event();
    REQUIRE(event);
    CHECK(event->worker == rig.job(rack).shard.racks->place().seat_of(1, 1));
  }
}

// Each link is counted by what goes over it: sums up in fp32, replies down in the wire type.
TEST_CASE("what goes to and comes from each rack is counted apart", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain);
  RacksRig rig({.workers = {2, 1, 2, 1}, .shape = shape, .wire_type = DataType::kBfloat16});
  std::mt19937 random(5);
  constexpr std::uint64_t kRounds = 3;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    rig.randomise(random);
    rig.round();
  }
  for (std::uint32_t own = 0; own < rig.racks(); ++own) {
    const server::JobOnCore& job = rig.job(own);
    const auto records = job.times.log().last(10);
    REQUIRE(records.size() == kRounds);
    for (std::uint32_t other = 0; other < rig.racks(); ++other) {
      if (other == own) continue;
      std::uint64_t up = 0;  // elements
      std::uint64_t down = 0;
      for (const Chunk& chunk : rig.plan->chunks) {
        const RackTree& tree = rig.trees[chunk.tree];
        if (tree.parent[own] == other) up += chunk.elements;
        if (tree.parent[other] == own) down += chunk.elements;
      }
      INFO("from " << own << " to " << other);
      const server::WorkerCounters& above = job.above_counters[other];
      const std::uint32_t seat = rig.seat(own, other);
      const server::WorkerCounters& below = job.worker_counters[seat];
      CHECK(above.bytes_sent.value() == kRounds * up * sizeof(float));
      CHECK(above.bytes_received.value() == kRounds * up * 2);
      CHECK(below.bytes_received.value() == kRounds * down * sizeof(float));
      CHECK(below.bytes_sent.value() == kRounds * down * 2);
      for (const server::RoundRecord& record : records) {
        CHECK((record.racks[other].last > 0) == (up + down > 0));
        CHECK(record.racks[other].first <= record.racks[other].last);
        CHECK(record.racks[other].last <= record.complete);
        CHECK(record.racks[own].last == 0);
      }
    }
  }
}

}  // namespace
}  // namespace phub
