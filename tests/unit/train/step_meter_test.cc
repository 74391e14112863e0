// What a trainer measures of its steps becomes what servers are told.
#include "worker/train/report/step_meter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace phub::train {
namespace {

TEST_CASE("a step's waits and samples are told, with the wait for the exchange before it") {
  StepMeter meter(3);
  const StepReport step{.seconds = 2.0, .exchange_seconds = 0.5, .input_seconds = 1.0};
  const auto first = meter.take(step, 64, {.source = 60, .disk = 10, .memory = 2});
  REQUIRE(first);
  CHECK(first->steps == 1);
  CHECK(first->samples == 64);
  CHECK(first->step_seconds() == Approx(2.0));
  CHECK(first->input_share() == Approx(0.5));
  CHECK(first->exchange_share() == Approx(0.25));
  CHECK(first->input_threads == 3);
  CHECK(first->cpus >= 1);
  CHECK(first->from_source == 60);
  CHECK(first->from_disk == 10);
  CHECK(first->from_memory == 2);
  // At an epoch's end the trainer waits for the last step's parameters.
  meter.add_wait(2.0);
  const auto second = meter.take(step, 64, {.source = 60, .disk = 10, .memory = 66});
  REQUIRE(second);
  CHECK(second->step_seconds() == Approx(4.0));
  CHECK(second->exchange_share() == Approx(2.5 / 4.0));
  CHECK(second->input_share() == Approx(0.25));
  CHECK(second->from_source == 0);
  CHECK(second->from_memory == 64);
  CHECK(meter.take(step, 64, {.source = 60, .disk = 10, .memory = 66})->step_seconds() ==
        Approx(2.0));
}

TEST_CASE("where workers hold a set together, receipts say from whose memory samples came") {
  StepMeter meter(0);
  using data::Origin;
  const std::vector<data::Receipt> receipts = {{1, Origin::kOwnMemory},
                                               {2, Origin::kPeer},
                                               {3, Origin::kPeer},
                                               {4, Origin::kSource},
                                               {0, Origin::kUntold}};
  meter.add(receipts);
  meter.add(receipts);
  const StepReport step{.seconds = 1.0};
  const auto told = meter.take(step, 5, {.source = 100, .disk = 100});  // what loaders read
  REQUIRE(told);
  CHECK(told->from_memory == 2);
  CHECK(told->from_peers == 4);
  CHECK(told->from_source == 2);
  CHECK(told->from_disk == 0);
  CHECK(meter.take(step, 5, {.source = 100, .disk = 100})->counted() == 0);
}

TEST_CASE("a clock that gives no sensible times tells nothing, and later steps are told") {
  StepMeter meter(0);
  CHECK_FALSE(meter.take({.seconds = 0.0}, 1, {}));
  CHECK_FALSE(meter.take({.seconds = 1.0, .input_seconds = 2.0}, 1, {}));
  CHECK_FALSE(meter.take({.seconds = std::nan("")}, 1, {.source = 7}));
  CHECK(meter.take({.seconds = 1.0}, 1, {.source = 8})->from_source == 1);
}

}  // namespace
}  // namespace phub::train
