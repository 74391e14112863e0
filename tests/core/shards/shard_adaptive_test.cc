// Rules adam, adamw and adagrad on a shard: the specification's bits, and the count of updates that
// corrects their bias.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::VoteOutcome;

constexpr RuleKind kAdaptiveRules[] = {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad};

void check_same_replies(const ShardRig& first, const ShardRig& second) {
  for (std::uint32_t slot = 0; slot < first.shard->chunks(); ++slot) {
    REQUIRE(second.reply(slot) == first.reply(slot));
  }
}

}  // namespace

TEST_CASE("adaptive rules have the bits of their specification in every order and wire type") {
  std::mt19937 random(51);
  for (const RuleKind rule : kAdaptiveRules) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      for (const std::uint32_t workers : {1U, 3U}) {
        CAPTURE(name_of(rule), name_of(type), workers);
        ShardRig rig(deferred_layout(rule, workers, type));
        RuleSpecification specification = initialised(rig, random);
        for (std::uint32_t round = 1; round < 6; ++round) {
          rig.push_all(random, noise(round));
          specification.round(rig.layout.hyper, 1.0F, noise(round));
          REQUIRE(rig.agrees(specification));
        }
        REQUIRE(rig.staging->in_use() == 0);
      }
    }
  }
}

TEST_CASE("a round that votes leave out is none for the correction of the bias") {
  std::mt19937 random(52);
  for (const RuleKind rule : kAdaptiveRules) {
    CAPTURE(name_of(rule));
    JobLayout layout = deferred_layout(rule, 2, DataType::kFloat32);
    layout.loss_scale.kind = LossScaling::kVoted;
    ShardRig rig(layout);
    RuleSpecification specification = initialised(rig, random);
    for (std::uint32_t round = 1; round < 9; ++round) {
      const std::uint32_t overflow = round < 3 || round == 6 ? 1 : 0;
      rig.push_all(random, noise(round, 4.0F));
      CHECK(rig.shard->vote(0, {.loss_scale = 4.0F}) == VoteOutcome::kAccepted);
      CHECK(rig.shard->vote(1, {.loss_scale = 4.0F, .overflow = overflow}) ==
            VoteOutcome::kUpdatesDue);
      rig.update_all_due();
      if (overflow == 0) specification.round(rig.layout.hyper, 4.0F, noise(round, 4.0F));
      REQUIRE(rig.agrees(specification));
    }
  }
}

TEST_CASE("an adaptive job that is restored goes on with the bits of the one that was copied") {
  std::mt19937 random(53);
  for (const RuleKind rule : kAdaptiveRules) {
    CAPTURE(name_of(rule));
    JobLayout layout = deferred_layout(rule, 1, DataType::kFloat16);
    layout.loss_scale.kind = LossScaling::kVoted;
    ShardRig rig(layout);
    const auto round = [&random](ShardRig& on, std::uint32_t index, std::uint32_t overflow) {
      on.push_all(random, noise(index));
      on.shard->vote(0, {.overflow = overflow});
      on.update_all_due();
    };
    rig.push_all(random, noise(0));
    for (std::uint32_t index = 1; index < 5; ++index) round(rig, index, index == 2 ? 1 : 0);
    auto copy = std::move(*server::JobCopy::create(*layout.plan, 0, state_arrays(rule)));
    copy->round = 5;
    REQUIRE(rig.shard->updates.copying.begin(copy));
    REQUIRE(rig.shard->updates.copying.copy_some(100) == 0);
    rig.shard->updates.copying.end();
    CHECK(copy->left_out() == 1);

    layout.initial = copy;
    ShardRig second(layout);
    second.push_all(random, noise(99));
    check_same_replies(rig, second);
    for (std::uint32_t index = 5; index < 8; ++index) {
      round(rig, index, index == 6 ? 1 : 0);
      round(second, index, index == 6 ? 1 : 0);
      check_same_replies(rig, second);
    }
  }
}

TEST_CASE("clipping has the bits of its specification, and of none where the norm is small") {
  std::mt19937 random(55);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kNesterov, RuleKind::kAdamW}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      for (const float clip_norm : {0.5F, 1e6F}) {
        CAPTURE(name_of(rule), name_of(type), clip_norm);
        JobLayout layout = deferred_layout(rule, 3, type);
        ShardRig plain(layout);
        layout.clip_norm = clip_norm;
        ShardRig rig(layout);
        RuleSpecification specification = initialised(rig, random);
        plain.push_all(random, noise(0));
        for (std::uint32_t round = 1; round < 5; ++round) {
          rig.completed = 0;
          rig.push_all(random, noise(round));
          rig.update_all_due();
          REQUIRE(rig.completed == rig.shard->chunks());
          plain.push_all(random, noise(round));
          specification.round(rig.layout.hyper, 1.0F, noise(round));
          REQUIRE(rig.agrees(specification));
          REQUIRE((plain.reply(1) == rig.reply(1)) == (clip_norm > 1.0F));
        }
        CHECK(rig.staging->in_use() == 0);
      }
    }
  }
}

TEST_CASE("a round whose norm is not finite is left out on all chunks, and is no update") {
  std::mt19937 random(56);
  JobLayout layout = deferred_layout(RuleKind::kAdam, 2, DataType::kFloat32);
  layout.clip_norm = 1.0F;
  ShardRig rig(layout);
  RuleSpecification specification = initialised(rig, random);
  for (std::uint32_t round = 1; round < 5; ++round) {
    const auto value = [round](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      const bool here = round == 2 && worker == 1 && key == 1 && i == 4321;
      return here ? std::numeric_limits<float>::infinity() : noise(round)(worker, key, i);
    };
    rig.push_all(random, value);
    rig.update_all_due();
    const std::size_t skipped = specification.round(rig.layout.hyper, 1.0F, value);
    CHECK(skipped == (round == 2 ? rig.shard->chunks() : 0));
    CHECK(rig.shard->chunk(7).skipped == (round == 2));
    REQUIRE(rig.agrees(specification));
  }
  CHECK(rig.shard->updates.skipped.updates.value() == rig.shard->chunks());
}

TEST_CASE("nothing is updated before every core of the server has its sums") {
  std::mt19937 random(57);
  JobLayout layout = deferred_layout(RuleKind::kMomentum, 1, DataType::kFloat32);
  layout.clip_norm = 1.0F;
  layout.weight_decay.assign(5, 0.0F);
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(
      {.key_elements = {3, 5000, 17, 2000, 1}, .chunk_bytes = 4096, .cores_per_server = {2}})));
  const auto memory = std::move(*server::JobMemory::create(layout));
  std::uint32_t wakes = 0;
  memory->norms->set_wake([&wakes] { ++wakes; });
  std::vector<std::unique_ptr<server::BufferPool>> staging;
  std::vector<std::unique_ptr<server::Shard>> shards;
  for (const std::uint32_t core : {0U, 1U}) {
    staging.push_back(std::move(*server::BufferPool::create(server::staging_buffers(layout, core),
                                                            server::staging_buffer_bytes(layout))));
    shards.push_back(std::make_unique<server::Shard>(layout, core, memory, *staging.back()));
  }
  const std::vector<float> ones(layout.plan->max_chunk_elements, 1.0F);
  const auto push = [&](std::uint32_t core, std::uint32_t slot) {
    std::byte* const place = staging[core]->take_for_push();
    std::memcpy(place, ones.data(), shards[core]->push_bytes(slot));
    return shards[core]->on_push({.worker = 0,
                                  .slot = slot,
                                  .data = place,
                                  .bytes = shards[core]->push_bytes(slot),
                                  .staged = true,
                                  .hyper = &layout.hyper});
  };
  const auto push_all = [&](std::uint32_t core) {
    auto last = server::PushResult::kAccepted;
    for (std::uint32_t slot = 0; slot < shards[core]->chunks(); ++slot) last = push(core, slot);
    return last;
  };
  for (const std::uint32_t core : {0U, 1U}) push_all(core);
  for (std::uint32_t round = 1; round < 4; ++round) {
    const std::uint32_t first = round % 2;
    const std::uint32_t last = 1 - first;
    CHECK(push_all(first) == server::PushResult::kUpdatesDue);
    CHECK_FALSE(shards[first]->updates.has_due());
    CHECK(shards[first]->updates.awaits());
    CHECK(wakes == round - 1);
    CHECK(push_all(last) == server::PushResult::kUpdatesDue);
    CHECK(wakes == round);
    for (const auto& shard : shards) {
      std::uint32_t updated = 0;
      for (; shard->updates.has_due(); ++updated) shard->updates.update_due();
      CHECK(updated == shard->chunks());
      CHECK_FALSE(shard->updates.awaits());
    }
  }
  // 7021 ones: scaled by 1/4 and clipped to a norm of 1, the momentum of three rounds at rate 1/2.
  const double step = 0.5 / std::sqrt(7021.0);
  float reply = 0.0F;
  std::memcpy(&reply, shards[0]->updates.replies.whole(0).data(), sizeof(reply));
  CHECK(reply == Approx(1.0 - (1.0 + 1.9 + 2.71) * step));
}

TEST_CASE("the moving average begins with the parameters and follows their updates") {
  std::mt19937 random(58);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kNesterov, RuleKind::kAdam}) {
    for (const bool clips : {false, true}) {
      CAPTURE(name_of(rule), clips);
      JobLayout layout = deferred_layout(rule, 2, DataType::kFloat32);
      layout.ema_decay = 0.75;
      layout.clip_norm = clips ? 1.0F : 0.0F;
      ShardRig averaging(layout);
      layout.ema_decay = 0.0;
      ShardRig rig(layout);
      std::vector<std::vector<float>> averages;
      for (std::uint32_t round = 0; round < 4; ++round) {
        rig.push_all(random, noise(round));
        rig.update_all_due();
        averaging.push_all(random, noise(round));
        averaging.update_all_due();
        check_same_replies(averaging, rig);
        for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
          const std::vector<float> now = rig.reply(slot);
          if (round == 0) averages.push_back(now);
          kernels::reference::add_to_average(averages[slot].data(), now.data(), 0.25F, now.size());
        }
      }
      auto copy = std::move(*server::JobCopy::create(*layout.plan, 0, state_arrays(rule) + 1));
      copy->round = 4;
      REQUIRE(averaging.shard->updates.copying.begin(copy));
      REQUIRE(averaging.shard->updates.copying.copy_some(100) == 0);
      for (std::uint32_t slot = 0; slot < averages.size(); ++slot) {
        const Chunk& chunk = layout.plan->chunks[layout.plan->core_chunks[0][0][slot]];
        const float* const kept = copy->state_at(chunk.arena_offset, state_arrays(rule));
        REQUIRE(std::equal(averages[slot].begin(), averages[slot].end(), kept));
      }
      averaging.shard->updates.copying.end();
      layout.ema_decay = 0.75;
      layout.initial = copy;
      ShardRig restored(layout);
      restored.push_all(random, noise(99));
      const float* const kept = restored.memory->optimizer_state() +
                                state_arrays(rule) * restored.memory->arena.elements();
      REQUIRE(kept[0] == averages[0][0]);
    }
  }
}

TEST_CASE("worker 0's learning rate holds for an adaptive rule from its round on") {
  std::mt19937 random(54);
  ShardRig rig(deferred_layout(RuleKind::kAdamW, 2, DataType::kFloat32));
  RuleSpecification specification = initialised(rig, random);
  for (std::uint32_t round = 1; round < 4; ++round) {
    rig.layout.hyper.learning_rate /= 2.0F;
    rig.push_all(random, noise(round));
    specification.round(rig.layout.hyper, 1.0F, noise(round));
    REQUIRE(rig.agrees(specification));
  }
}

}  // namespace phub::testing
