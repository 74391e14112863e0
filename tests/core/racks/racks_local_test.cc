// Racks that make several rounds by themselves: each has the bits of one process that does what is
// documented, between exchanges and after them, and so has a job that is restored.
#include <cstring>

#include "kernels/clip.h"
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

constexpr RackLocal kThree{.steps = 3, .learning_rate = 0.5F, .momentum = 0.75F};
constexpr Hyper kHyper{.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};

RacksOptions local(RuleKind rule, RackShape shape = RackShape::kSpread) {
  return {.workers = {2, 1, 3},
          .shape = shape,
          .rule = rule,
          .keys = 7,
          .key_elements = 2500,
          .rack_local = kThree};
}

void apply(RuleKind rule, const Hyper& hyper, float decay, const std::vector<float>& sum,
           std::vector<float>& parameters, std::vector<float>& state) {
  const kernels::Source source{std::as_bytes(std::span(sum)).data(), DataType::kFloat32};
  kernels::update({.sources = {&source, 1},
                   .elements = static_cast<std::uint32_t>(sum.size()),
                   .rule = rule,
                   .hyper = hyper,
                   .weight_decay = decay,
                   .parameters = parameters.data(),
                   .state = state.data()});
}

// The documented steps over whole chunks, rack by rack.
class LocalModel {
 public:
  explicit LocalModel(const RacksRig& rig) : rig_(rig), racks_(rig.racks()) {}

  void initialise(const std::vector<std::byte>& pushed) {
    for (const Chunk& chunk : rig_.plan->chunks) {
      together_.push_back(rig_.values(pushed, chunk));
      velocity_.emplace_back(chunk.elements);
      for (Rack& rack : racks_) {
        rack.parameters.push_back(together_.back());
        rack.state.emplace_back(chunk.elements);
      }
    }
  }
  // `scales`: by rack, what the sums are multiplied by; 0: the rack leaves out the round.
  void round(int number, const std::vector<float>& scales = {0.25F, 0.25F, 0.25F}) {
    for (std::uint32_t id = 0; id < rig_.plan->chunks.size(); ++id) {
      for (std::uint32_t index = 0; index < racks_.size(); ++index) {
        if (scales[index] == 0.0F) continue;
        Rack& rack = racks_[index];
        const auto sum = rig_.fold_workers(rig_.plan->chunks[id], index);
        Hyper hyper = kHyper;
        hyper.gradient_scale = scales[index];
        apply(RuleKind::kMomentum, hyper, 0.01F, sum, rack.parameters[id], rack.state[id]);
      }
      if (number % static_cast<int>(kThree.steps) == 0) exchange(id);
    }
  }
  const std::vector<float>& parameters(std::uint32_t rack, std::uint32_t id) const {
    return racks_[rack].parameters[id];
  }

 private:
  struct Rack {
    std::vector<std::vector<float>> parameters, state;  // by chunk
  };

  // Up the chunk's tree, in the racks' order.
  std::vector<float> fold(std::uint32_t id, std::uint32_t rack) const {
    std::vector<float> sum;
    const auto add = [&](const std::vector<float>& other) {
      if (sum.empty()) return sum = other, void();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    };
    for (std::uint32_t other = 0; other < racks_.size(); ++other) {
      if (other == rack) {
        std::vector<float> own = together_[id];
        for (std::size_t i = 0; i < own.size(); ++i) own[i] -= racks_[rack].parameters[id][i];
        add(own);
      }
      if (rig_.trees[rig_.plan->chunks[id].tree].parent[other] == rack) add(fold(id, other));
    }
    return sum;
  }
  void exchange(std::uint32_t id) {
    const std::vector<float> sum = fold(id, rig_.root(rig_.plan->chunks[id]));
    apply(RuleKind::kNesterov,
          {.learning_rate = kThree.learning_rate,
           .momentum = kThree.momentum,
           .gradient_scale = 1.0F / static_cast<float>(racks_.size())},
          0.0F, sum, together_[id], velocity_[id]);
    for (Rack& rack : racks_) rack.parameters[id] = together_[id];
  }

  const RacksRig& rig_;
  std::vector<Rack> racks_;
  std::vector<std::vector<float>> together_, velocity_;  // by chunk
};

void draw_local(RacksRig& rig, int round) {
  std::mt19937 random(static_cast<unsigned>(500 + round));
  rig.randomise(random);
}

void check_racks(RacksRig& rig, const LocalModel& model) {
  for (std::uint32_t id = 0; id < rig.plan->chunks.size(); ++id) {
    rig.for_each([&](std::uint32_t rack, const RacksWorker& worker) {
      const std::vector<float> got = rig.values(worker.parameters, rig.plan->chunks[id]);
      const std::vector<float>& wanted = model.parameters(rack, id);
      REQUIRE(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0);
    });
  }
}

// Each rack votes at the scale that its gradients have. `scales`: as LocalModel::round has them.
void vote_scales(RacksRig& rig, const std::vector<float>& scales) {
  rig.for_each([&](std::uint32_t rack, RacksWorker& worker) {
    const bool is_against = scales[rack] == 0.0F && &worker == &rig.worker(rack, 0);
    worker.vote = {.loss_scale = scales[rack] == 0.0F ? 2.0F : 0.25F / scales[rack],
                   .overflow = is_against ? 1U : 0U};
    worker.send(&worker.vote, sizeof(Vote),
                wire::immediate(wire::kVoteSlot, RacksRig::epoch(rack)));
  });
}

// The first round brings the initial values, which the model takes too.
void begin(RacksRig& rig, LocalModel& model) {
  draw_local(rig, 0);
  rig.round();
  model.initialise(rig.worker(0, 0).gradients);
}

bool are_equal(RacksRig& rig) {
  bool are_same = true;
  rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
    are_same = are_same && worker.parameters == rig.worker(0, 0).parameters;
  });
  return are_same;
}

std::uint64_t bytes_between(RacksRig& rig) {
  std::uint64_t bytes = 0;
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    for (const auto& above : rig.job(rack).above_counters) {
      bytes += above.bytes_sent.value() + above.bytes_received.value();
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("racks that make rounds by themselves have one process's bits, by each shape",
          "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                              RackShape::kTree, RackShape::kNested);
  INFO(name_of(shape));
  RacksRig rig(local(RuleKind::kMomentum, shape));
  LocalModel model(rig);
  begin(rig, model);
  for (int round = 1; round < 11; ++round) {
    const std::uint64_t before = bytes_between(rig);
    draw_local(rig, round);
    rig.round();
    model.round(round);
    check_racks(rig, model);
    CHECK(are_equal(rig) == (round % 3 == 0));
    CHECK((bytes_between(rig) == before) == (round % 3 != 0));
  }
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    CHECK(rig.job(rack).staging->in_use() == 0);
  }
}

// Every vote says the scale of its rack, which is a power of two.
TEST_CASE("racks that make rounds by themselves vote by themselves", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kTree);
  const bool votes_first = GENERATE(false, true);
  RacksOptions options = local(RuleKind::kMomentum, shape);
  options.loss_scale = {LossScaling::kVoted, 1.0F};
  RacksRig rig(options);
  LocalModel model(rig);
  begin(rig, model);
  for (int round = 1; round < 11; ++round) {
    INFO("round " << round);
    // Each rack leaves out rounds of its own, also such as end with an exchange.
    std::vector<float> scales;
    for (int rack = 0; rack < 3; ++rack) {
      const bool is_left_out = (round + rack) % 4 == 3;
      scales.push_back(is_left_out ? 0.0F : std::ldexp(0.25F, -((round + rack) % 3)));
    }
    const auto vote = [&] { vote_scales(rig, scales); };
    draw_local(rig, round);
    if (votes_first) vote();
    rig.push_all();
    if (!votes_first) vote();
    rig.finish();
    model.round(round, scales);
    check_racks(rig, model);
    CHECK(are_equal(rig) == (round % 3 == 0));
  }
  for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
    CHECK(rig.job(rack).shard.updates.skipped.rounds.value() == (rack == 0 ? 2 : 3));
    CHECK(rig.job(rack).staging->in_use() == 0);
  }
}

TEST_CASE("racks that make rounds by themselves clip by their own norms", "[racks]") {
  constexpr float kNorm = 3.0F;
  RacksOptions options = local(RuleKind::kMomentum, RackShape::kChain);
  options.clip_norm = kNorm;
  RacksRig rig(options);
  LocalModel model(rig);
  begin(rig, model);
  for (int round = 1; round < 8; ++round) {
    draw_local(rig, round);
    rig.round();
    std::vector<float> scales;
    for (std::uint32_t rack = 0; rack < rig.racks(); ++rack) {
      double squares = 0.0;
      for (const Chunk& chunk : rig.plan->chunks) {
        const std::vector<float> sum = rig.fold_workers(chunk, rack);
        squares += kernels::sum_of_squares(sum.data(), sum.size());
      }
      scales.push_back(0.25F * kernels::clip_coefficient(kNorm, squares, 0.25F));
    }
    CHECK(scales[0] < 0.25F);
    CHECK(scales[0] != scales[1]);
    model.round(round, scales);
    check_racks(rig, model);
    CHECK(are_equal(rig) == (round % 3 == 0));
  }
}

TEST_CASE("each rack's first worker says its rate, and a mean is over the rack's workers",
          "[racks]") {
  RacksRig rig(local(RuleKind::kMomentum));
  draw_local(rig, 0);
  rig.round();
  // One worker's gradient in a rack of three is a third of it in the mean.
  const std::vector<float> before = rig.values(rig.worker(2, 0).parameters, rig.plan->chunks[0]);
  rig.for_each([&](std::uint32_t rack, RacksWorker& worker) {
    auto* const values = reinterpret_cast<float*>(worker.gradients.data());
    std::fill_n(values, rig.plan->arena_elements, 1.0F);
    worker.hyper = {.learning_rate = rack == 2 ? 0.25F : 0.125F, .gradient_scale = 1.0F / 6.0F};
    if (&worker != &rig.worker(rack, 0)) return;
    worker.send(&worker.hyper, sizeof(Hyper),
                wire::immediate(wire::kHyperSlot, RacksRig::epoch(rack)));
  });
  rig.round();
  const std::vector<float> after = rig.values(rig.worker(2, 0).parameters, rig.plan->chunks[0]);
  const float decayed = 1.0F + 0.01F * before[5];
  CHECK(after[5] == Approx(before[5] - 0.25F * decayed));
  const auto other = rig.values(rig.worker(1, 0).parameters, rig.plan->chunks[0]);
  CHECK(other[5] == Approx(before[5] - 0.125F * decayed));
}

TEST_CASE("racks meet again after each exchange, with any rule, scale and wire type", "[racks]") {
  const auto rule = GENERATE(RuleKind::kSgd, RuleKind::kLars, RuleKind::kLamb, RuleKind::kAdamW);
  const auto wire = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  const auto density = GENERATE(0.0F, 0.05F);
  INFO(name_of(rule) << " " << name_of(wire) << " " << density);
  RacksOptions options = local(rule);
  options.wire_type = wire;
  options.loss_scale = {LossScaling::kStatic, 2.0F};
  options.rack_compress = {.density = density, .dense_below = 1};
  RacksRig rig(options);
  for (int round = 0; round < 10; ++round) {
    draw_local(rig, round);
    rig.round();
    CHECK(are_equal(rig) == (round % 3 == 0));
  }
  const auto values = rig.values(rig.worker(1, 0).parameters, rig.plan->chunks[2]);
  CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
}

TEST_CASE("a job whose racks make rounds by themselves goes on from copies as it was", "[racks]") {
  const auto rule = GENERATE(RuleKind::kMomentum, RuleKind::kLars);
  const int copied_after = GENERATE(2, 3, 4);
  INFO(name_of(rule) << ", after " << copied_after);
  RacksOptions options = local(rule);
  options.rack_compress = {.density = 0.05F, .dense_below = 1};
  RacksRig straight(options);
  const unsigned arrays = server::state_arrays(rule, 0.0, true, true);
  for (int round = 0; round <= copied_after; ++round) {
    draw_local(straight, round);
    straight.round();
  }
  for (std::uint32_t rack = 0; rack < straight.racks(); ++rack) {
    auto copy = std::move(*server::JobCopy::create(*straight.plan, 0, arrays));
    copy->round = static_cast<std::uint64_t>(copied_after) + 1;
    auto& copying = straight.job(rack).shard.updates.copying;
    REQUIRE(copying.begin(copy));
    REQUIRE(copying.copy_some(straight.job(rack).shard.chunks()) == 0);
    copying.end();
    options.initial.push_back(copy);
  }
  RacksRig restored(options);
  draw_local(restored, 99);  // the first round of a restored job says what was restored
  restored.round();
  for (std::uint32_t rack = 0; rack < restored.racks(); ++rack) {
    CHECK(restored.worker(rack, 0).parameters == straight.worker(rack, 0).parameters);
  }
  for (int round = copied_after + 1; round < copied_after + 8; ++round) {
    draw_local(straight, round);
    straight.round();
    draw_local(restored, round);
    restored.round();
    for (std::uint32_t rack = 0; rack < restored.racks(); ++rack) {
      REQUIRE(restored.worker(rack, 0).parameters == straight.worker(rack, 0).parameters);
    }
  }
}

}  // namespace phub
