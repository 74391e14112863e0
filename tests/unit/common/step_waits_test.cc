// What a worker says of its steps: which numbers are refused, and what is kept of them.
#include "common/steps/step_waits.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "common/steps/recent_steps.h"
#include "proto/job.pb.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

StepWaits ten_steps() {
  return {.steps = 10,
          .step_ns = 1'000'000'000,
          .input_ns = 600'000'000,
          .exchange_ns = 100'000'000,
          .samples = 640,
          .from_source = 600,
          .from_disk = 30,
          .from_memory = 9,
          .from_peers = 1,
          .input_threads = 2,
          .cpus = 8};
}

TEST_CASE("shares of a step add up to one, and a message brings back what it was filled with") {
  const StepWaits times = ten_steps();
  REQUIRE(check(times).ok());
  CHECK(times.input_share() == Approx(0.6));
  CHECK(times.exchange_share() == Approx(0.1));
  CHECK(times.compute_share() == Approx(0.3));
  CHECK(times.step_seconds() == Approx(0.1));
  CHECK(times.counted() == 640);
  control::StepWaits message;
  fill(times, message);
  CHECK(step_waits_from(message).value() == times);
}

TEST_CASE("step times that no training has are refused by the name of the field") {
  const auto refusal = [](auto change) {
    StepWaits times = ten_steps();
    change(times);
    control::StepWaits message;
    fill(times, message);
    const auto refused = step_waits_from(message);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Code::kInvalidArgument);
    return refused.error().message();
  };
  CHECK_THAT(refusal([](auto& t) { t.steps = 0; }), Contains("step_waits.steps: 0"));
  CHECK_THAT(refusal([](auto& t) { t.step_ns = 0; }), Contains("step_waits.step_ns: 0"));
  CHECK_THAT(refusal([](auto& t) { t.input_ns = t.step_ns + 1; }),
             Contains("step_waits.input_ns: 1000000001 is more than step_ns"));
  CHECK_THAT(refusal([](auto& t) { t.exchange_ns = 400'000'001; }),
             Contains("step_waits.exchange_ns: 400000001 and input_ns, 600000000"));
  // Their sum is 2^64, which is 0.
  CHECK_THAT(refusal([](auto& t) { t.exchange_ns = kMost - t.input_ns + 1; }),
             Contains("step_waits.exchange_ns"));
  CHECK_THAT(refusal([](auto& t) { t.steps = kMost; }),
             Contains("step_waits.steps: 18446744073709551615, allowed are at most"));
  CHECK_THAT(refusal([](auto& t) { t.step_ns = kMost; }), Contains("step_waits.step_ns"));
  CHECK_THAT(refusal([](auto& t) { t.samples = kMost; }), Contains("step_waits.samples"));
  CHECK_THAT(refusal([](auto& t) { t.from_source = kMost; }), Contains("step_waits.from_source"));
  CHECK_THAT(refusal([](auto& t) { t.from_disk = kMost; }), Contains("step_waits.from_disk"));
  CHECK_THAT(refusal([](auto& t) { t.from_memory = kMost; }), Contains("step_waits.from_memory"));
  CHECK_THAT(refusal([](auto& t) { t.from_peers = kMost; }), Contains("step_waits.from_peers"));
  CHECK_THAT(refusal([](auto& t) { t.input_threads = UINT32_MAX; }),
             Contains("step_waits.input_threads"));
  CHECK_THAT(refusal([](auto& t) { t.cpus = UINT32_MAX; }), Contains("step_waits.cpus"));
}

TEST_CASE("seconds that are negative, infinite or not a number are refused") {
  for (const double wrong : {-1e-9, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, 1e8}) {
    CAPTURE(wrong);
    CHECK_THAT(step_waits_from(1, 0, wrong, 0.0, 0.0).error().message(),
               Contains("step_waits.step_ns"));
    CHECK_THAT(step_waits_from(1, 0, 1.0, wrong, 0.0).error().message(),
               Contains("step_waits.input_ns"));
    CHECK_THAT(step_waits_from(1, 0, 1.0, 0.0, wrong).error().message(),
               Contains("step_waits.exchange_ns"));
  }
  CHECK_THAT(step_waits_from(1, 0, 1.0, 0.7, 0.4).error().message(),
             Contains("together more than step_ns"));
  const auto times = step_waits_from(4, 256, 0.5, 0.25, 0.125);
  REQUIRE(times);
  CHECK(*times == StepWaits{.steps = 4,
                            .step_ns = 500'000'000,
                            .input_ns = 250'000'000,
                            .exchange_ns = 125'000'000,
                            .samples = 256});
  // Parts that fill the whole, as binary fractions have them.
  for (const double whole : {0.3, 0.7, 1.1, 2.2, 3.3}) {
    CAPTURE(whole);
    CHECK(step_waits_from(1, 0, whole, whole / 3, whole - whole / 3));
  }
}

TEST_CASE("recent steps are those of the last 15 to 30 s, and at least the last report") {
  client::RecentSteps recent;
  CHECK_FALSE(recent.sum());
  const StepWaits second = ten_steps();
  recent.add(second);
  CHECK(recent.sum() == second);
  for (int i = 1; i < 1000; ++i) {
    recent.add(second);
    const StepWaits sum = recent.sum().value();
    CHECK(check(sum).ok());
    CHECK(sum.steps == 10 * sum.step_ns / 1'000'000'000);
    if (i >= 30) CHECK(sum.step_ns >= 15'000'000'000);
    CHECK(sum.step_ns <= 30'000'000'000);
  }
  // What was slow is forgotten, and so is what was fast.
  StepWaits slow = second;
  slow.input_ns = 0;
  for (int i = 0; i < 31; ++i) recent.add(slow);
  CHECK(recent.sum()->input_ns == 0);
  // Steps that are longer than the time.
  StepWaits day{.steps = 1, .step_ns = 86'400'000'000'000};
  recent.add(day);
  recent.add(day);
  recent.add(day);
  CHECK(recent.sum()->steps == 2);
  CHECK(recent.sum()->step_ns == 2 * day.step_ns);
}

TEST_CASE("recent steps never become more than a report may say") {
  client::RecentSteps recent;
  const StepWaits most{.steps = std::uint64_t{1} << 48,
                       .step_ns = std::uint64_t{1} << 53,
                       .input_ns = std::uint64_t{1} << 53,
                       .samples = std::uint64_t{1} << 48};
  REQUIRE(check(most).ok());
  for (int i = 0; i < 4; ++i) {
    recent.add(most);
    CHECK(recent.sum() == most);
  }
}

}  // namespace
}  // namespace phub
