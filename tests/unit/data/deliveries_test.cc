// The sums of what workers were given are the same in each epoch, whatever their batches, also
// where batches have samples of two epochs.
#include "worker/data/feed/deliveries.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

#include "common/base/splitmix.h"
#include "tests/unit/data/random_members.h"

namespace phub::data {
namespace {

struct Epoch {
  std::uint64_t sum = 0, samples = 0;
  std::uint32_t whole = 0;  // workers that have had all of their part
};

// What `steps` steps of all workers come to, by epoch.
std::map<std::uint64_t, Epoch> epochs_of(std::uint64_t images, const Members& run,
                                         std::uint64_t steps) {
  std::map<std::uint64_t, Epoch> epochs;
  for (const TrainingOptions& options : run.workers) {
    const TrainingOrder order(images, options);
    Deliveries deliveries(order);
    const std::uint64_t first = options.start.step * options.accumulate;
    for (std::uint64_t index = first; index < first + steps * options.accumulate; ++index) {
      std::vector<Receipt> receipts;
      for (std::uint32_t slot = 0; slot < options.batch; ++slot) {
        receipts.push_back({splitmix64(1, order.shown(index, slot).image), Origin::kPeer});
      }
      deliveries.add(index, receipts);
      if (const auto over = deliveries.take_over()) {
        Epoch& epoch = epochs[over->epoch];
        epoch.sum += over->sum;
        epoch.samples += over->samples();
        epoch.whole += over->is_whole ? 1U : 0U;
      }
    }
  }
  return epochs;
}

TEST_CASE("Each epoch's sums over the workers are those of the whole set") {
  Random random(11);
  for (int turn = 0; turn < 200; ++turn) {
    const std::uint32_t images = between(random, 4, 60);
    const Members run = members(random, images, {});
    std::uint64_t whole = 0;
    for (std::uint32_t image = 0; image < images; ++image) whole += splitmix64(1, image);
    const TrainingOrder order(images, run.workers[0]);
    const auto epochs = epochs_of(images, run, order.steps_in(5));
    for (const auto& [number, epoch] : epochs) {
      INFO("turn " << turn << ", epoch " << number);
      REQUIRE(epoch.samples == images);
      REQUIRE(epoch.sum == whole);
      REQUIRE(epoch.whole == run.workers.size());
    }
    REQUIRE(epochs.size() >= 4);
  }
}

TEST_CASE("A run that begins within an epoch does not call it whole") {
  const TrainingOrder order(10, {.batch = 4, .start = {.step = 2, .used = 8}});
  Deliveries deliveries(order);
  const std::vector<Receipt> receipts(4, {.hash = 1, .origin = Origin::kSource});
  deliveries.add(2, receipts);
  const auto over = deliveries.take_over();
  REQUIRE(over);
  CHECK(over->epoch == 0);
  CHECK_FALSE(over->is_whole);
  CHECK(over->source == 2);
  CHECK(over->sum == 2);
  REQUIRE(deliveries.rest());
  CHECK(deliveries.rest()->epoch == 1);
  CHECK(deliveries.rest()->samples() == 2);
}

TEST_CASE("A set without an account has no sum, and no rest") {
  const TrainingOrder order(10, {.batch = 5});
  Deliveries deliveries(order);
  deliveries.add(0, std::vector<Receipt>(5));
  CHECK_FALSE(deliveries.take_over());
  CHECK_FALSE(deliveries.rest());
}

}  // namespace
}  // namespace phub::data
