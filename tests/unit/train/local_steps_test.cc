// Steps of a worker's own between exchanges: when what is exchanged, and by hand what comes of it.
#include "worker/train/exchange/local_steps.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/tensors/safetensors.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"
#include "worker/train/exchange/outer_schedule.h"

namespace phub::train {
namespace {

TEST_CASE("Each fragment is exchanged once in local_steps, no two with the same step") {
  const OuterSchedule schedule({.local_steps = 12, .fragments = 4});
  std::map<std::uint32_t, std::vector<std::uint64_t>> steps;
  for (std::uint64_t step = 0; step < 36; ++step) {
    for (std::uint32_t f = 0; f < 4; ++f) {
      if (schedule.is_exchanged(f, step)) steps[f].push_back(step);
    }
  }
  CHECK(steps[0] == std::vector<std::uint64_t>{11, 23, 35});
  CHECK(steps[1] == std::vector<std::uint64_t>{8, 20, 32});
  CHECK(steps[2] == std::vector<std::uint64_t>{5, 17, 29});
  CHECK(steps[3] == std::vector<std::uint64_t>{2, 14, 26});
}

TEST_CASE("With the last step everything is exchanged, and taken at once") {
  OuterSchedule schedule({.local_steps = 12, .fragments = 4, .overlap_steps = 5});
  schedule.set_end(20);
  for (std::uint32_t f = 0; f < 4; ++f) CHECK(schedule.is_exchanged(f, 19));
  CHECK_FALSE(schedule.is_exchanged(0, 23));
  CHECK_FALSE(schedule.is_due(17, 19));
  CHECK(schedule.is_due(17, 20));
  CHECK(schedule.is_due(19, 20));
}

TEST_CASE("What is pushed is taken before the forward pass after the overlap") {
  const OuterSchedule at_once({.local_steps = 4});
  CHECK_FALSE(at_once.is_due(3, 3));
  CHECK(at_once.is_due(3, 4));
  const OuterSchedule later({.local_steps = 4, .overlap_steps = 3});
  CHECK_FALSE(later.is_due(3, 6));
  CHECK(later.is_due(3, 7));
}

TEST_CASE("Fragments are contiguous and of about the same size") {
  const PlanInput plan{.key_elements = std::vector<std::uint64_t>(16, 16 * 1024),
                       .cores_per_server = {1}};
  const auto fragments = fragments_of(plan, 4);
  REQUIRE(fragments);
  CHECK(*fragments == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
}

TEST_CASE("Keys that share a chunk are in one fragment") {
  // Large keys of two chunks each between small ones, of which two or three share a chunk.
  const PlanInput plan{.key_elements = {100, 16'384, 200, 300, 16'384, 50, 16'384, 20, 20, 20},
                       .cores_per_server = {1}};
  const Plan chunks = make_plan(plan).value();
  for (const std::uint32_t count : {1U, 2U, 3U, 7U, 40U}) {
    const auto fragments = fragments_of(plan, count);
    REQUIRE(fragments);
    CHECK(std::is_sorted(fragments->begin(), fragments->end()));
    CHECK(fragments->back() < count);
    std::map<std::uint32_t, std::set<std::uint32_t>> of_chunk;
    for (std::uint32_t id = 0; id < chunks.chunks.size(); ++id) {
      const Chunk& chunk = chunks.chunks[id];
      for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
        of_chunk[id].insert((*fragments)[chunks.segments[chunk.first_segment + s].key]);
      }
      CHECK(of_chunk[id].size() == 1);
    }
  }
}

// One worker with a key of one parameter, 8 at first. Rates and gradients of few bits: the
// arithmetic is exact.
struct OneWorker {
  explicit OneWorker(const OuterScheduleOptions& schedule, float mix = 0.0F,
                     std::uint64_t end = 100)
      : exchange(make_delta_exchange(
            {.own = make_local_exchange({{.name = "w", .elements = 1}}, RuleKind::kSgd),
             .outer = make_local_exchange({{.name = "w", .elements = 1}}, RuleKind::kNesterov)},
            {.schedule = schedule,
             .fragments = {0},
             .hyper = {.learning_rate = 0.5F, .momentum = 0.5F, .gradient_scale = 0.0F},
             .mix = mix})) {
    exchange->gradient(0)[0] = 8.0F;
    REQUIRE(exchange->initialise().ok());
    exchange->set_steps(0, end);
  }

  // A step with gradient 4 at rate 0.25; the parameter that the next forward pass sees.
  float step() {
    REQUIRE(exchange->wait(0).ok());
    // The trainer averages over workers; a local step is of one.
    REQUIRE(exchange->set_hyper({.learning_rate = 0.25F, .gradient_scale = 0.125F}).ok());
    exchange->gradient(0)[0] = 4.0F;
    REQUIRE(exchange->push(0).ok());
    REQUIRE(exchange->end_step(1.0F).ok());
    REQUIRE(exchange->wait(0).ok());
    return std::as_const(*exchange).parameter(0)[0];
  }

  std::unique_ptr<GradientExchange> exchange;
};

TEST_CASE("After local steps the outer rule's parameters take the place of the worker's own") {
  OneWorker worker({.local_steps = 3});
  CHECK(worker.step() == 7.0F);
  CHECK(worker.step() == 6.0F);
  // delta = 8 - 5 = 3: v = 3; w = 8 - 0.5 (3 + 0.5 * 3) = 5.75
  CHECK(worker.step() == 5.75F);
  CHECK(worker.step() == 4.75F);
  CHECK(worker.step() == 3.75F);
  // delta = 5.75 - 2.75 = 3: v = 1.5 + 3 = 4.5; w = 5.75 - 0.5 (3 + 2.25) = 3.125
  CHECK(worker.step() == 3.125F);
}

TEST_CASE("A reply that overlaps with steps is mixed with what they made") {
  OneWorker worker({.local_steps = 3, .overlap_steps = 1}, 0.5F);
  worker.step();
  worker.step();
  CHECK(worker.step() == 5.0F);                        // pushed with it, not taken
  CHECK(worker.step() == 0.5F * 4.0F + 0.5F * 5.75F);  // 4.875
  CHECK(worker.step() == 3.875F);
  // delta = 5.75 - 2.875
  CHECK(worker.step() == 2.875F);
}

TEST_CASE("The last step is exchanged out of turn, and nothing of the worker's own is kept") {
  OneWorker worker({.local_steps = 3, .overlap_steps = 2}, 0.5F, 4);
  worker.step();
  worker.step();
  worker.step();  // delta 3; the shared parameter becomes 5.75
  // Taken, half and half, after the local step to 4: 4.875; delta = 0.875: v = 1.5 + 0.875 = 2.375;
  // w = 5.75 - 0.5 (0.875 + 0.5 * 2.375) = 4.71875
  CHECK(worker.step() == 4.71875F);
}

TEST_CASE("With one local step and plain descent outside a run ends as one by gradients") {
  const TemporaryDirectory directory;
  SessionOptions options = testing::small_session();
  options.checkpoint.path = directory.path / "gradients";
  REQUIRE(testing::run(options, RuleKind::kSgd));
  options.checkpoint.path = directory.path / "deltas";
  const auto factory =
      [](const std::vector<KeySpec>& keys) -> Result<std::unique_ptr<GradientExchange>> {
    return make_delta_exchange(
        {.own = make_local_exchange(keys, RuleKind::kSgd),
         .outer = make_local_exchange(outer_keys(keys), RuleKind::kSgd)},
        {.fragments = std::vector<std::uint32_t>(keys.size()), .hyper = {.learning_rate = 1.0F}});
  };
  REQUIRE(run_session(options, factory, [] { return false; }));
  const auto gradients = read_safetensors(directory.path / "gradients");
  const auto deltas = read_safetensors(directory.path / "deltas");
  REQUIRE(gradients);
  REQUIRE(deltas);
  for (const NamedTensor& tensor : gradients->tensors) {
    const NamedTensor* other = deltas->find(tensor.name);
    REQUIRE(other != nullptr);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      REQUIRE(other->values[i] == Approx(tensor.values[i]).margin(1e-4));
    }
  }
}

}  // namespace
}  // namespace phub::train
