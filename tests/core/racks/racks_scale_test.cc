// Racks that push each other some of their sums, in jobs with a loss scale: the bits are those of a
// job without one, whatever the scale is, and a round that is left out leaves no trace.
#include <cstring>

#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

RacksOptions job(RuleKind rule, const LossScale& scale = {}) {
  return {.workers = {2, 1, 2},
          .rule = rule,
          .loss_scale = scale,
          .keys = 9,
          .key_elements = 2500,
          .rack_compress = {.density = 0.02F, .dense_below = 1}};
}

// The same gradients for each rig, times a power of two.
void draw(RacksRig& rig, int round, float scale) {
  std::mt19937 random(static_cast<unsigned>(100 + round));
  rig.randomise(random);
  rig.for_each([&](std::uint32_t, RacksWorker& worker) {
    auto* const values = reinterpret_cast<float*>(worker.gradients.data());
    for (std::size_t i = 0; i < worker.gradients.size() / sizeof(float); ++i) values[i] *= scale;
  });
}

Hyper rates_in(int round) {
  return {.learning_rate = 0.01F + 0.01F * static_cast<float>(round % 3),
          .momentum = 0.5F,
          .gradient_scale = 0.5F};
}

// All workers have the same finite parameters in both; -0 is not 0.
bool have_same_bits(RacksRig& one, RacksRig& other) {
  const auto* const values = reinterpret_cast<const float*>(one.worker(0, 0).parameters.data());
  bool are_same = std::all_of(values, values + one.plan->arena_elements,
                              [](float value) { return std::isfinite(value); });
  one.for_each([&](std::uint32_t rack, RacksWorker& worker) {
    const auto& there = other.worker(rack, 0).parameters;
    are_same = are_same && std::memcmp(worker.parameters.data(), there.data(), there.size()) == 0;
  });
  return are_same;
}

bool is_at_rest(RacksRig& rig) {
  bool rests = true;
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    rests = rests && rig.job(rack).staging->in_use() == 0 && !rig.job(rack).shard.stopped();
  }
  return rests;
}

// A round of a job that votes; votes come before the pushes, or after them.
void vote_round(RacksRig& rig, int round, float scale, bool votes_first,
                std::uint32_t rack_against = ~0U) {
  draw(rig, round, scale);
  rig.send_hyper(rates_in(round));
  if (votes_first) rig.vote_all(scale, rack_against);
  rig.push_all();
  if (!votes_first) rig.vote_all(scale, rack_against);
  rig.finish();
}

void plain_round(RacksRig& rig, int round, float scale = 1.0F) {
  draw(rig, round, scale);
  rig.send_hyper(rates_in(round));
  rig.round();
}

}  // namespace

TEST_CASE("compressed racks with a static loss scale have the bits of none", "[racks]") {
  const auto rule =
      GENERATE(RuleKind::kMomentum, RuleKind::kLars, RuleKind::kLamb, RuleKind::kAdamW);
  INFO(name_of(rule));
  RacksRig plain(job(rule));
  RacksRig scaled(job(rule, {LossScaling::kStatic, 8.0F}));
  draw(plain, 0, 1.0F);
  plain.round();
  draw(scaled, 0, 1.0F);
  scaled.round();
  for (int round = 1; round < 8; ++round) {
    plain_round(plain, round);
    plain_round(scaled, round, 8.0F);
    REQUIRE(have_same_bits(plain, scaled));
  }
  plain.for_each([](std::uint32_t, const RacksWorker& worker) { CHECK(worker.skipped == 0); });
  CHECK(is_at_rest(plain));
  CHECK(is_at_rest(scaled));
}

TEST_CASE("compressed racks vote with scales that change, and have the bits of none", "[racks]") {
  const auto rule =
      GENERATE(RuleKind::kMomentum, RuleKind::kLars, RuleKind::kLamb, RuleKind::kAdamW);
  const bool votes_first = GENERATE(false, true);
  INFO(name_of(rule));
  RacksRig plain(job(rule));
  RacksRig voting(job(rule, {LossScaling::kVoted, 1.0F}));
  draw(plain, 0, 1.0F);
  plain.round();
  draw(voting, 0, 1.0F);
  voting.round();
  for (int round = 1; round < 10; ++round) {
    const float scale = std::ldexp(1.0F, round % 4);
    // Left out of one job, and not there in the other: parameters, state and residuals stay.
    if (round % 3 == 2) {
      vote_round(voting, round + 50, scale, votes_first, static_cast<std::uint32_t>(round) % 3);
      REQUIRE(have_same_bits(plain, voting));
    }
    plain_round(plain, round);
    vote_round(voting, round, scale, votes_first);
    REQUIRE(have_same_bits(plain, voting));
  }
  CHECK(voting.worker(1, 0).skipped == 3 * voting.plan->chunks.size());
  CHECK(is_at_rest(voting));
}

TEST_CASE("a key whose sum is not finite is left out in each rack, with its residual", "[racks]") {
  const auto rule = GENERATE(RuleKind::kMomentum, RuleKind::kLars);
  INFO(name_of(rule));
  RacksRig rig(job(rule, {LossScaling::kStatic, 8.0F}));
  draw(rig, 0, 1.0F);
  rig.round();
  plain_round(rig, 1, 8.0F);
  const std::vector<std::byte> before = rig.worker(0, 0).parameters;
  draw(rig, 2, 8.0F);
  auto* const values = reinterpret_cast<float*>(rig.worker(1, 0).gradients.data());
  values[1] = std::numeric_limits<float>::infinity();
  rig.send_hyper(rates_in(2));
  rig.round();
  const Chunk& chunk = rig.plan->chunks[0];
  const auto at = [&](const std::vector<std::byte>& arena) { return rig.values(arena, chunk); };
  rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
    CHECK(at(worker.parameters) == at(before));
  });
  plain_round(rig, 3, 8.0F);
  rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
    const auto now = at(worker.parameters);
    CHECK(std::all_of(now.begin(), now.end(), [](float value) { return std::isfinite(value); }));
    CHECK(now != at(before));
    CHECK(worker.parameters == rig.worker(0, 0).parameters);
  });
  CHECK(is_at_rest(rig));
}

TEST_CASE("sums that wait for votes take a buffer each", "[racks]") {
  RacksOptions options = job(RuleKind::kSgd, {LossScaling::kVoted, 1.0F});
  options.workers = {8, 1};
  options.keys = 300;
  options.key_elements = 1024;
  RacksRig rig(options);
  draw(rig, 0, 1.0F);
  rig.round();
  for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot) {
    for (std::uint32_t worker = 8; worker-- > 0;) {  // the first one last: nothing is folded
      while (!rig.worker(0, worker).has_room()) rig.run_once();
      rig.worker(0, worker).push(slot, RacksRig::epoch(0));
      rig.run_once();
    }
  }
  while (rig.run_once()) {
  }
  CHECK(rig.job(0).shard.racks->held() == rig.plan->chunks.size());
  CHECK(rig.job(0).staging->in_use() == rig.plan->chunks.size());
}

TEST_CASE("racks have the same average where a key is left out, or a round", "[racks]") {
  const auto rule = GENERATE(RuleKind::kLars, RuleKind::kLamb, RuleKind::kMomentum);
  const float density = GENERATE(0.0F, 0.5F);
  INFO(name_of(rule) << " " << density);
  RacksOptions options = job(rule, {LossScaling::kStatic, 8.0F});
  options.keys = 4;
  options.key_elements = 100;  // all of them in a chunk
  options.rack_compress.density = density;
  options.ema_decay = 0.5;
  RacksRig rig(options);
  draw(rig, 0, 1.0F);
  rig.round();
  for (int round = 1; round < 4; ++round) {
    draw(rig, round, 8.0F);
    auto* const values = reinterpret_cast<float*>(rig.worker(0, 0).gradients.data());
    if (round == 2) values[1] = std::numeric_limits<float>::infinity();
    rig.send_hyper(rates_in(round));
    rig.round();
    for (const Chunk& chunk : rig.plan->chunks) {
      const std::vector<float> average = rig.average(0, chunk);
      CHECK(rig.average(1, chunk) == average);
      CHECK(rig.average(2, chunk) == average);
    }
  }
}

TEST_CASE("a round that is left out leaves no residual of 16 bits", "[racks]") {
  RacksOptions options = job(RuleKind::kSgd, {LossScaling::kStatic, 1.0F});
  options.rack_compress = {};
  options.rack_wire_type = DataType::kBfloat16;
  RacksRig plain(options);
  RacksRig rig(options);
  for (RacksRig* each : {&plain, &rig}) {
    draw(*each, 0, 1.0F);
    each->round();
    plain_round(*each, 1);
  }
  draw(rig, 2, 1e30F);
  rig.for_each([&](std::uint32_t, RacksWorker& worker) {
    for (const Chunk& chunk : rig.plan->chunks) {
      auto* const values = reinterpret_cast<float*>(worker.gradients.data()) + chunk.arena_offset;
      values[0] = std::numeric_limits<float>::infinity();
    }
  });
  rig.round();
  plain_round(plain, 3);
  plain_round(rig, 3);
  CHECK(have_same_bits(plain, rig));
}

}  // namespace phub
