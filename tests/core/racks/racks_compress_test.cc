// Racks that push each other the largest elements of their sums: every rack has the bits of one
// process that does what is documented, in few bytes, and so has a job that is restored.
#include <cstring>

#include "kernels/sparse_reference.h"
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

constexpr RackCompress kSome{.density = 0.02F, .dense_below = 1};

// Of the documented steps, over whole arrays: what each rack keeps back, the sum of what they do
// not, up the chunk's tree in the racks' order, and the rule's update.
class CompressedModel {
 public:
  CompressedModel(const RacksRig& rig, const RackCompress& options, RuleKind rule)
      : rig_(rig), options_(options), rule_(rule) {}

  // The first round's push of worker 0.
  void initialise(const std::vector<std::byte>& pushed) {
    for (const Chunk& chunk : rig_.plan->chunks) {
      parameters.push_back(rig_.values(pushed, chunk));
      state_.emplace_back(chunk.elements);
    }
  }
  void round(const Hyper& hyper) {
    for (std::uint32_t id = 0; id < rig_.plan->chunks.size(); ++id) {
      const Chunk& chunk = rig_.plan->chunks[id];
      const std::vector<float> sum = fold(id, rig_.root(chunk));
      const kernels::Source source{std::as_bytes(std::span(sum)).data(), DataType::kFloat32};
      kernels::update({.sources = {&source, 1},
                       .elements = chunk.elements,
                       .rule = rule_,
                       .hyper = hyper,
                       .weight_decay = 0.01F,
                       .parameters = parameters[id].data(),
                       .state = state_[id].data()});
    }
  }

  std::vector<std::vector<float>> parameters;  // by chunk

 private:
  std::vector<float> fold(std::uint32_t id, std::uint32_t rack) {
    const Chunk& chunk = rig_.plan->chunks[id];
    std::vector<float> sum;
    const auto add = [&](const std::vector<float>& other) {
      if (sum.empty()) return sum = other, void();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    };
    for (std::uint32_t other = 0; other < rig_.racks(); ++other) {
      if (other == rack) add(sent_by(id, rack));
      if (rig_.trees[chunk.tree].parent[other] == rack) add(fold(id, other));
    }
    return sum;
  }
  std::vector<float> sent_by(std::uint32_t id, std::uint32_t rack) {
    const Chunk& chunk = rig_.plan->chunks[id];
    std::vector<float> sum = rig_.fold_workers(chunk, rack);
    const std::uint64_t elements = rig_.plan->chunk_count[0] * std::uint64_t{chunk.elements};
    if (elements < options_.dense_below) return sum;
    std::vector<float>& rest = rests_[{rack, id}];
    rest.resize(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    const auto k = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::round(static_cast<double>(options_.density) *
                                               static_cast<double>(sum.size()))));
    std::vector<std::uint32_t> indices(k);
    std::vector<float> values(k);
    kernels::reference::select_largest(sum, k, {indices.data(), values.data()});
    std::vector<float> sent(sum.size());
    rest = options_.error_feedback ? sum : std::vector<float>(sum.size());
    for (std::size_t i = 0; i < k; ++i) {
      sent[indices[i]] = values[i];
      rest[indices[i]] = 0.0F;
    }
    return sent;
  }

  const RacksRig& rig_;
  const RackCompress options_;
  const RuleKind rule_;
  std::vector<std::vector<float>> state_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<float>> rests_;
};

Hyper hyper_in(int round) {
  return {.learning_rate = 0.1F + 0.05F * static_cast<float>(round),
          .momentum = 0.5F,
          .gradient_scale = 0.5F};
}

void play(RacksRig& rig, int round) {
  std::mt19937 random(static_cast<unsigned>(100 + round));
  rig.randomise(random);
  if (round > 0) rig.send_hyper(hyper_in(round));
  rig.round();
}

void check_all(RacksRig& rig, const CompressedModel& model) {
  for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      const std::vector<float> got = rig.values(worker.parameters, rig.plan->chunks[id]);
      REQUIRE(std::memcmp(got.data(), model.parameters[id].data(), got.size() * sizeof(float)) ==
              0);
    });
  }
}

// To and from the racks above, so far.
std::uint64_t bytes_across(RacksRig& rig) {
  std::uint64_t bytes = 0;
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    for (const auto& above : rig.job(rack).above_counters) {
      bytes += above.bytes_sent.value() + above.bytes_received.value();
    }
  }
  return bytes;
}

std::vector<std::shared_ptr<server::JobCopy>> begin_copies(RacksRig& rig, unsigned arrays,
                                                           std::uint64_t round) {
  std::vector<std::shared_ptr<server::JobCopy>> copies;
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    copies.push_back(std::move(*server::JobCopy::create(*rig.plan, 0, arrays)));
    copies.back()->round = round;
    REQUIRE(rig.job(rack).shard.updates.copying.begin(copies.back()));
  }
  return copies;
}

}  // namespace

TEST_CASE("racks that push some of their sums have one process's bits, by each shape", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                              RackShape::kTree, RackShape::kNested);
  const auto workers =
      GENERATE(std::vector<std::uint32_t>{2, 2}, std::vector<std::uint32_t>{1, 3, 2},
               std::vector<std::uint32_t>{1, 1, 2, 1, 1, 1, 1, 3, 1});
  INFO(name_of(shape) << ", " << workers.size() << " racks");
  RacksRig rig(
      {.workers = workers, .shape = shape, .rule = RuleKind::kMomentum, .rack_compress = kSome});
  CompressedModel model(rig, kSome, RuleKind::kMomentum);
  play(rig, 0);
  model.initialise(rig.worker(0, 0).gradients);
  for (int round = 1; round < 6; ++round) {
    play(rig, round);
    model.round(hyper_in(round));
    check_all(rig, model);
  }
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    CHECK(rig.job(rack).staging->in_use() == 0);
  }
}

TEST_CASE("so have other rules, types, selectors and small keys, and what is not kept", "[racks]") {
  const auto rule = GENERATE(RuleKind::kSgd, RuleKind::kNesterov);
  RackCompress some = kSome;
  some.selector = GENERATE(Selector::kExact, Selector::kHistogram);
  some.error_feedback = GENERATE(true, false);
  some.dense_below = GENERATE(1U, 1024U, 1025U);
  INFO(name_of(rule) << ", " << name_of(some.selector) << ", " << some.dense_below);
  RacksRig rig({.workers = {2, 1, 1}, .rule = rule, .rack_compress = some});
  CompressedModel model(rig, some, rule);
  play(rig, 0);
  model.initialise(rig.worker(0, 0).gradients);
  for (int round = 1; round < 4; ++round) {
    play(rig, round);
    model.round(hyper_in(round));
    check_all(rig, model);
  }
}

TEST_CASE("each rack has the same bits in 16 bits, with adam, and in order of arrival", "[racks]") {
  const auto rule = GENERATE(RuleKind::kAdam, RuleKind::kMomentum, RuleKind::kSum);
  const auto type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  RacksRig rig({.workers = {2, 1, 2},
                .shape = RackShape::kChain,
                .rule = rule,
                .wire_type = type,
                .rack_compress = kSome});
  for (int round = 0; round < 4; ++round) {
    play(rig, round);
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      REQUIRE(worker.parameters == rig.worker(0, 0).parameters);
    });
  }
}

TEST_CASE("a hundredth of two racks' sums is a thirtieth of the bytes, both ways", "[racks]") {
  const auto across = [](const RackCompress& compress) {
    RacksRig rig({.workers = {2, 2}, .rule = RuleKind::kMomentum, .rack_compress = compress});
    play(rig, 0);
    const std::uint64_t before = bytes_across(rig);
    for (int round = 1; round < 4; ++round) {
      std::mt19937 random(static_cast<unsigned>(round));
      rig.randomise(random);
      rig.round();
    }
    return bytes_across(rig) - before;
  };
  const std::uint64_t whole = across({});
  const std::uint64_t some = across({.density = 0.01F, .dense_below = 1});
  CHECK(whole == 3 * 24 * 2 * 4096);
  CHECK(some * 25 < whole);
}

// The copy is under way while one rack's sums of the next round are there already.
TEST_CASE("what is kept back is in copies, and a restored job goes on with its bits", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain);
  const auto type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  RacksOptions options{.workers = {1, 2, 1},
                       .shape = shape,
                       .rule = RuleKind::kMomentum,
                       .wire_type = type,
                       .rack_compress = kSome};
  RacksRig rig(options);
  for (int round = 0; round < 4; ++round) play(rig, round);
  const auto copies = begin_copies(rig, state_arrays(RuleKind::kMomentum) + 1, 4);
  std::mt19937 random(104);
  rig.randomise(random);
  rig.send_hyper(hyper_in(4));
  rig.worker(0, 0).push(0, RacksRig::epoch(0));
  for (int i = 0; i < 100; ++i) rig.run_once();
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    REQUIRE(rig.job(rack).shard.updates.copying.copy_some(1000) == 0);
    rig.job(rack).shard.updates.copying.end();
  }
  // The rack's rest of the round under way does not hold yet. So a copy that begins now has the
  // bits of the one that began before.
  const auto late = std::move(*server::JobCopy::create(*rig.plan, 0, 2));
  late->round = 4;
  REQUIRE(rig.job(0).shard.updates.copying.begin(late));
  REQUIRE(rig.job(0).shard.updates.copying.copy_some(1000) == 0);
  rig.job(0).shard.updates.copying.end();
  const std::size_t bytes = late->arena.elements() * sizeof(float);
  CHECK(std::memcmp(late->parameters->data(), copies[0]->parameters->data(), bytes) == 0);
  CHECK(std::memcmp(late->state->data(), copies[0]->state->data(), 2 * bytes) == 0);

  options.initial.assign(copies.begin(), copies.end());
  RacksRig restored(options);
  play(restored, 0);
  RacksRig straight({.workers = options.workers,
                     .shape = shape,
                     .rule = RuleKind::kMomentum,
                     .wire_type = type,
                     .rack_compress = kSome});
  for (int round = 0; round < 4; ++round) play(straight, round);
  for (int round = 4; round < 8; ++round) {
    restored.for_each([&](std::uint32_t rack, const RacksWorker& worker) {
      REQUIRE(worker.parameters == straight.worker(rack, 0).parameters);
    });
    play(restored, round);
    play(straight, round);
  }
}

}  // namespace phub
