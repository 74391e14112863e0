#include "worker/train/schedule/schedule.h"

#include <catch2/catch.hpp>

namespace phub::train {
namespace {

TEST_CASE("A constant schedule keeps the learning rate") {
  const Schedule schedule{.learning_rate = 0.3F, .total_steps = 10};
  REQUIRE(learning_rate_at(schedule, 0) == 0.3F);
  REQUIRE(learning_rate_at(schedule, 1'000'000) == 0.3F);
}

TEST_CASE("The warm-up rises in equal steps and ends at the full rate") {
  const Schedule schedule{.learning_rate = 0.4F, .warmup_steps = 4, .total_steps = 10};
  REQUIRE(learning_rate_at(schedule, 0) == Approx(0.1));
  REQUIRE(learning_rate_at(schedule, 1) == Approx(0.2));
  REQUIRE(learning_rate_at(schedule, 3) == Approx(0.4));
  REQUIRE(learning_rate_at(schedule, 4) == Approx(0.4));
}

TEST_CASE("A step schedule multiplies by gamma at each drop") {
  const Schedule schedule{.kind = ScheduleKind::kStep,
                          .learning_rate = 1.0F,
                          .total_steps = 100,
                          .drops = {10, 20},
                          .gamma = 0.5F};
  REQUIRE(learning_rate_at(schedule, 9) == 1.0F);
  REQUIRE(learning_rate_at(schedule, 10) == 0.5F);
  REQUIRE(learning_rate_at(schedule, 19) == 0.5F);
  REQUIRE(learning_rate_at(schedule, 20) == 0.25F);
}

TEST_CASE("A polynomial schedule falls to zero over the steps after the warm-up") {
  const Schedule schedule{.kind = ScheduleKind::kPolynomial,
                          .learning_rate = 1.0F,
                          .warmup_steps = 20,
                          .total_steps = 120,
                          .power = 2.0F};
  REQUIRE(learning_rate_at(schedule, 20) == 1.0F);
  REQUIRE(learning_rate_at(schedule, 70) == Approx(0.25));
  REQUIRE(learning_rate_at(schedule, 120) == 0.0F);
  REQUIRE(learning_rate_at(schedule, 500) == 0.0F);
}

TEST_CASE("A cosine schedule is half way down half way through") {
  const Schedule schedule{
      .kind = ScheduleKind::kCosine, .learning_rate = 2.0F, .warmup_steps = 0, .total_steps = 100};
  REQUIRE(learning_rate_at(schedule, 0) == 2.0F);
  REQUIRE(learning_rate_at(schedule, 50) == Approx(1.0));
  REQUIRE(learning_rate_at(schedule, 100) == Approx(0.0).margin(1e-7));
}

TEST_CASE("A warm-up that is longer than the training never divides by zero") {
  const Schedule schedule{
      .kind = ScheduleKind::kCosine, .learning_rate = 1.0F, .warmup_steps = 10, .total_steps = 10};
  REQUIRE(learning_rate_at(schedule, 4) == Approx(0.5));
  REQUIRE(learning_rate_at(schedule, 10) == 1.0F);
}

TEST_CASE("Schedules are known by name") {
  REQUIRE(parse_schedule_kind("cosine") == ScheduleKind::kCosine);
  REQUIRE(parse_schedule_kind("polynomial") == ScheduleKind::kPolynomial);
  REQUIRE_FALSE(parse_schedule_kind("exponential"));
}

TEST_CASE("after a change of the batch the warm-up goes on, and the rest at its share") {
  const Schedule schedule{.kind = ScheduleKind::kPolynomial,
                          .learning_rate = 1.0F,
                          .warmup_steps = 10,
                          .total_steps = 110,
                          .power = 1.0F};
  CHECK(learning_rate_at(schedule, 4, 90) == Approx(0.5));
  CHECK(learning_rate_at(schedule, 20, 3) == Approx(1.0));
  CHECK(learning_rate_at(schedule, 20, 60) == Approx(0.5));
}

}  // namespace
}  // namespace phub::train
