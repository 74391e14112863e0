// Racks whose servers have not as many cores: the bits are those of racks that do.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tests/support/server/racks/cores_rig.h"

namespace phub::testing {
namespace {

using Cores = std::vector<std::uint32_t>;

// What the first worker of the first rack has after each round; all others have the same.
std::vector<std::vector<std::byte>> trained(CoresOptions options, const Cores& cores) {
  options.cores = cores;
  CoresRig rig(options);
  std::mt19937 values(7);
  std::mt19937 orders(cores.front() + 10 * cores.back());
  std::vector<std::vector<std::byte>> all;
  for (int round = 0; round < 5; ++round) {
    rig.randomise(values);
    if (round == 3) rig.say({.learning_rate = 0.25F, .momentum = 0.5F, .gradient_scale = 0.125F});
    rig.round(orders);
    rig.for_each([&](const CoresWorker& each) {
      CHECK_FALSE(each.is_lost);
      if (options.rack_local.is_on()) return;
      CHECK(each.parameters == rig.worker(0, 0).parameters);
    });
    all.push_back(rig.worker(0, 0).parameters);
  }
  return all;
}

void check_same_bits(const CoresOptions& options, const std::vector<Cores>& others) {
  const auto racks = others.front().size();
  const auto alike = trained(options, Cores(racks, 1));
  CHECK(alike[4] != alike[3]);
  for (const Cores& cores : others) {
    INFO("cores of the first rack " << cores.front() << ", of the last " << cores.back());
    CHECK(trained(options, cores) == alike);
  }
}

const std::vector<Cores> kOfTwo = {{2, 2}, {1, 3}, {3, 1}, {2, 3}, {3, 2}, {16, 3}};
const std::vector<Cores> kOfThree = {{3, 3, 3}, {1, 3, 2}, {3, 1, 1}, {2, 2, 5}};

}  // namespace

TEST_CASE("two racks with other cores have the bits of racks with as many") {
  check_same_bits({}, kOfTwo);
  check_same_bits({.rule = RuleKind::kSum}, kOfTwo);
  check_same_bits({.wire_type = DataType::kBfloat16}, kOfTwo);
}

TEST_CASE("each shape joins racks with other cores") {
  const RackShape shape = GENERATE(RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                                   RackShape::kHybrid, RackShape::kTree, RackShape::kNested);
  check_same_bits({.workers = {2, 1, 2}, .shape = shape}, kOfThree);
}

TEST_CASE("votes of racks with other cores are counted once on each core") {
  const LossScale voted{.kind = LossScaling::kVoted, .factor = 1.0F};
  check_same_bits({.loss_scale = voted}, kOfTwo);
  check_same_bits({.workers = {1, 2, 1}, .loss_scale = voted}, kOfThree);
}

TEST_CASE("a rule that needs whole keys is applied by racks with other cores") {
  check_same_bits({.rule = RuleKind::kLars}, kOfTwo);
}

TEST_CASE("racks with other cores push the largest elements of their sums") {
  const RackCompress some{.density = 0.1F, .dense_below = 1};
  check_same_bits({.rack_compress = some}, kOfTwo);
  check_same_bits({.workers = {1, 2, 1}, .shape = RackShape::kChain, .rack_compress = some},
                  kOfThree);
}

TEST_CASE("racks with other cores make outer steps") {
  check_same_bits({.rack_local = {.steps = 2}}, kOfTwo);
}

TEST_CASE("a rack's stream brings no chunk that another of its streams carries") {
  CoresOptions options;
  options.cores = {1, 3};
  CoresRig rig(options);
  server::JobOnCore& job = rig.job(0, 0);
  const auto& streams = job.connections[2];  // the other rack's
  REQUIRE(streams->streams == 3);
  for (std::uint32_t slot = 0; slot < job.shard.chunks(); ++slot) {
    const server::Connection& carrier = streams->carrier(slot);
    std::uint32_t carriers = 0;
    streams->for_each_stream([&](const server::Connection& stream) {
      if (stream.carries(slot)) ++carriers;
    });
    CHECK(carriers == 1);
    CHECK(carrier.carries(slot));
  }
  streams->for_each_stream(
      [&](const server::Connection& stream) { CHECK_FALSE(stream.carries(job.shard.chunks())); });
}

}  // namespace phub::testing
