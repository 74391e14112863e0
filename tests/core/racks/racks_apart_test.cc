// Racks that make rounds by themselves and are far apart in them: what one sends another while it
// goes on stays as it was.
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

RacksOptions apart(std::uint32_t steps, RackShape shape = RackShape::kSpread) {
  return {.workers = {1, 1},
          .shape = shape,
          .rule = RuleKind::kMomentum,
          .rack_local = {.steps = steps, .learning_rate = 0.5F, .momentum = 0.75F}};
}

void draw_apart(RacksRig& rig, int round) {
  std::mt19937 random(static_cast<unsigned>(700 + round));
  rig.randomise(random);
}

// Runs one rack alone, while the others' threads have other work.
void run_rack(RacksRig& rig, std::uint32_t rack, int times) {
  for (int i = 0; i < times; ++i) {
    rig.core(rack).run_once();
    rig.worker(rack, 0).poll();
  }
}
void run_all(RacksRig& rig, int times = 2000) {
  for (int i = 0; i < times; ++i) rig.run_once();
}

std::vector<std::shared_ptr<const server::JobCopy>> copies_of(RacksRig& rig, std::uint64_t round,
                                                              unsigned arrays) {
  std::vector<std::shared_ptr<const server::JobCopy>> copies;
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    auto copy = std::move(*server::JobCopy::create(*rig.plan, 0, arrays));
    copy->round = round;
    auto& copying = rig.job(rack).shard.updates.copying;
    REQUIRE(copying.begin(copy));
    REQUIRE(copying.copy_some(rig.job(rack).shard.chunks()) == 0);
    copying.end();
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

TEST_CASE("initial parameters reach a rack that does not read as they were", "[racks]") {
  RacksOptions options = apart(3, GENERATE(RackShape::kSpread, RackShape::kTree));
  options.keys = 400;
  RacksRig rig(options);
  draw_apart(rig, 0);
  const std::vector<std::byte> initial = rig.worker(0, 0).gradients;
  std::vector<std::uint32_t> slots;  // of chunks that end in rack 0
  for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot) {
    if (rig.root(rig.plan->chunks[slot]) == 0) slots.push_back(slot);
  }
  const auto push = [&](std::uint32_t rack, std::uint32_t slot) {
    while (!rig.worker(rack, 0).has_room()) run_rack(rig, rack, 1);
    rig.push(rack, slot);
  };
  for (const std::uint32_t slot : slots) push(1, slot);
  run_all(rig);
  for (int round = 0; round < 2; ++round) {  // rack 1 reads nothing meanwhile
    draw_apart(rig, round);
    for (const std::uint32_t slot : slots) push(0, slot);
    run_rack(rig, 0, 2000);
    REQUIRE(rig.worker(0, 0).replies == static_cast<std::size_t>(round + 1) * slots.size());
  }
  run_all(rig, 4000);
  REQUIRE(rig.worker(1, 0).replies == slots.size());
  for (const std::uint32_t slot : slots) {
    const Chunk& chunk = rig.plan->chunks[slot];
    REQUIRE(rig.values(rig.worker(1, 0).parameters, chunk) == rig.values(initial, chunk));
  }
}

TEST_CASE("a restored rack takes a difference before it has begun itself", "[racks]") {
  RacksOptions options = apart(3);
  options.workers = {2, 1};
  options.rack_compress = {.density = GENERATE(0.0F, 0.05F), .dense_below = 1};
  INFO("density " << options.rack_compress.density);
  RacksRig straight(options);
  for (int round = 0; round < 3; ++round) {
    draw_apart(straight, round);
    straight.round();
  }
  const bool has_rest = options.rack_compress.is_on();
  options.initial = copies_of(straight, 3, server::state_arrays(options.rule, 0.0, true, has_rest));
  RacksRig rig(options);
  std::uint32_t slot = 0;
  while (rig.root(rig.plan->chunks[slot]) != 0) ++slot;
  draw_apart(rig, 3);
  for (int round = 0; round < 2;
       ++round) {  // rack 1 says what was restored, and is in the exchange
    rig.push(1, slot);
    run_all(rig, 300);
  }
  REQUIRE_FALSE(rig.job(0).shard.stopped());
  rig.worker(0, 0).push(slot, RacksRig::epoch(0));
  run_all(rig, 300);
  CHECK_FALSE(rig.job(0).shard.chunk(slot).initialised);  // its second worker is missing
  rig.worker(0, 1).push(slot, RacksRig::epoch(0));
  run_all(rig, 300);
  rig.push(0, slot);
  run_all(rig, 300);
  CHECK(rig.job(0).shard.chunk(slot).rounds == 4);
  CHECK(rig.job(1).shard.chunk(slot).rounds == 4);
  CHECK(rig.job(0).staging->in_use() == 0);
}

TEST_CASE("hyper-parameters of many rounds do not fill the queue of a rack that is slow",
          "[racks]") {
  RacksOptions options = apart(12, GENERATE(RackShape::kChain, RackShape::kSpread));
  options.keys = 1;
  options.key_elements = 500;
  RacksRig rig(options);
  draw_apart(rig, 0);
  rig.round();
  for (int round = 1; round < 10; ++round) {
    rig.send_hyper({.learning_rate = 0.5F / static_cast<float>(round), .gradient_scale = 0.5F});
    rig.push(0, 0);
    run_rack(rig, 0, 50);
  }
  CHECK(rig.job(0).shard.chunk(0).rounds == 10);
  run_all(rig, 500);
  CHECK_FALSE(rig.job(0).shard.stopped());
  CHECK_FALSE(rig.job(1).shard.stopped());
}

TEST_CASE("an average stays in a round that its rack leaves out by itself", "[racks]") {
  RacksOptions options = apart(3);
  options.rule = GENERATE(RuleKind::kMomentum, RuleKind::kLars, RuleKind::kLamb);
  INFO(name_of(options.rule));
  options.loss_scale = {LossScaling::kVoted, 1.0F};
  options.ema_decay = 0.5;
  RacksRig rig(options);
  draw_apart(rig, 0);
  rig.round();
  const Chunk& chunk = rig.plan->chunks[0];
  std::vector<float> before;
  for (int round = 1; round < 3; ++round) {
    before = rig.average(0, chunk);
    draw_apart(rig, round);
    rig.vote_all(1.0F, round == 2 ? 0 : ~0U);
    rig.round();
  }
  CHECK(rig.job(0).shard.chunk(0).left_out == 1);
  CHECK((rig.average(0, chunk) == before));
}

namespace {

// Three racks of a worker each. The test itself plays the third, for chunks that end in rack 0.
struct LocalBeset {
  LocalBeset() : rig(options()) {
    while (rig.root(rig.plan->chunks[slot]) != 0) ++slot;
    zeros.resize(rig.plan->chunks[slot].elements * sizeof(float));
    draw_apart(rig, 0);
    rig.push(0, slot);
    rig.push(1, slot);
    rig.push_as_stranger(slot, zeros);
    run();
  }
  static RacksOptions options() {
    RacksOptions all = apart(3);
    all.workers = {1, 1, 1};
    all.has_stranger = true;
    return all;
  }
  void run() {
    for (int i = 0; i < 200; ++i) rig.run_once();
  }
  bool has_ended(server::Drop cause) {
    return rig.job(0).shard.stopped() && rig.core(0).drops().value(cause) == 1 &&
           rig.job(0).staging->in_use() == 0;
  }

  RacksRig rig;
  std::uint32_t slot = 0;
  std::vector<std::byte> zeros;
};

}  // namespace

TEST_CASE("a rack that is ahead waits with its difference, and may not push a second", "[racks]") {
  LocalBeset beset;
  REQUIRE(beset.rig.job(0).shard.chunk(beset.slot).initialised);
  beset.rig.push_as_stranger(beset.slot, beset.zeros);
  beset.run();
  CHECK_FALSE(beset.rig.job(0).shard.stopped());
  SECTION("the exchange ends when all are there") {
    for (int round = 0; round < 3; ++round) {
      beset.rig.push(0, beset.slot);
      beset.rig.push(1, beset.slot);
      beset.run();
    }
    CHECK_FALSE(beset.rig.job(0).shard.stopped());
    CHECK(beset.rig.job(0).shard.chunk(beset.slot).rounds == 4);
    CHECK(beset.rig.job(1).shard.chunk(beset.slot).rounds == 4);
    CHECK(beset.rig.job(0).staging->in_use() == 0);
  }
  SECTION("a second one ends the job") {
    beset.rig.push_as_stranger(beset.slot, beset.zeros);
    beset.run();
    CHECK(beset.rig.job(0).shard.stopped());
    CHECK(beset.rig.core(0).drops().value(server::Drop::kDuplicatePush) == 1);
  }
}

TEST_CASE("differences of wrong lengths, or that are none, end their job", "[racks]") {
  const auto [bytes, cause] =
      GENERATE(table<std::size_t, server::Drop>({{1, server::Drop::kBadSparse},
                                                 {7, server::Drop::kBadSparse},
                                                 {5000, server::Drop::kBadLength}}));
  INFO(bytes);
  LocalBeset beset;
  const std::vector<std::byte> wrong(bytes);
  beset.rig.push_as_stranger(beset.slot, wrong);
  beset.run();
  CHECK(beset.has_ended(cause));
}

TEST_CASE("another rack does not vote where racks make their own rounds", "[racks]") {
  RacksOptions options = LocalBeset::options();
  options.loss_scale.kind = LossScaling::kVoted;
  RacksRig rig(options);
  const Vote vote{.loss_scale = 1.0F};
  rig.push_as_stranger(wire::kVoteSlot, std::as_bytes(std::span(&vote, 1)));
  for (int i = 0; i < 200; ++i) rig.run_once();
  CHECK(rig.job(0).shard.stopped());
  CHECK(rig.core(0).drops().value(server::Drop::kBadVote) == 1);
}

TEST_CASE("a job that is lost or detached in an exchange leaves nothing", "[racks]") {
  LocalBeset beset;
  for (int round = 0; round < 3; ++round) {  // the last one waits for rack 2
    beset.rig.push(0, beset.slot);
    beset.rig.push(1, beset.slot);
    beset.run();
  }
  CHECK(beset.rig.job(0).shard.chunk(beset.slot).is_ahead());
  CHECK(beset.rig.job(0).shard.updates.copying.rounds_max() == 4);
  beset.rig.core(0).lose(&beset.rig.job(0), 0, "a test");
  beset.run();
  CHECK(beset.rig.job(0).shard.stopped());
}

}  // namespace phub
