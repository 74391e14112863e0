// Shards of two racks, joined by hand: what workers push in a rack is read as in a job of one rack,
// and each rack has the moving average.
#include <catch2/catch.hpp>

#include "kernels/quantise.h"
#include "tests/support/server/sparse_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::PushResult;

// Rack 0 is the root of each chunk.
JobLayout of_rack(JobLayout layout, std::uint32_t own) {
  layout.rack = {2, own, {RackTree{.parent = {RackTree::kNone, 0}}}};
  return layout;
}

JobLayout alone(JobLayout layout) {
  layout.rack = {};
  return layout;
}

class TwoRacks {
 public:
  explicit TwoRacks(const JobLayout& layout)
      : root(of_rack(layout, 0)), other(of_rack(layout, 1)) {}

  // What the workers of rack 1 have pushed goes up, and comes down as new parameters.
  void exchange() {
    for (std::uint32_t slot = 0; slot < root.shard->chunks(); ++slot) {
      const auto sum = other.shard->exchange->sum_to_push(slot);
      sums_.emplace_back(sum.begin(), sum.end());
      const PushResult result =
          root.shard->on_push({.worker = root.layout.workers,
                               .slot = slot,
                               .data = sums_.back().data(),
                               .bytes = static_cast<std::uint32_t>(sum.size()),
                               .staged = false,
                               .hyper = &root.layout.hyper});
      REQUIRE(result == PushResult::kCompleted);
      const auto reply = root.shard->updates.replies.whole(slot);
      REQUIRE(other.shard->take_reply(slot, reply, false) == PushResult::kCompleted);
    }
  }

  SparseRig root;
  SparseRig other;

 private:
  std::vector<std::vector<std::byte>> sums_;
};

std::span<const float> average(const SparseRig& rig) {
  const std::size_t elements = rig.memory->arena.elements();
  return {rig.memory->optimizer_state() + state_arrays(rig.layout.rule) * elements, elements};
}

}  // namespace

TEST_CASE("sparse pushes in a rack have the bits of dense ones in the sum that goes up") {
  std::mt19937 random(5);
  const auto sparse = [&](std::uint32_t round) {
    return [=](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      return i % 5 == 0 ? noise(round)(worker, key, i) : 0.0F;
    };
  };
  for (const bool checksums : {false, true}) {
    JobLayout layout = sparse_layout(RuleKind::kSum, 3, DataType::kFloat32);
    layout.checksums = checksums;
    SparseRig rack(of_rack(layout, 1));
    SparseRig dense(alone(layout));
    for (std::uint32_t slot = 0; slot < rack.shard->chunks(); ++slot) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint32_t worker = (i + slot) % 3;
        const auto pushed = rack.push_some(worker, slot, random, sparse(slot));
        CHECK(pushed == (i == 2 ? PushResult::kGoesUp : PushResult::kAccepted));
        dense.push(worker, slot, random() % 2 == 0, sparse(slot));
      }
      const auto sum = rack.shard->exchange->sum_to_push(slot);
      const auto wanted = dense.shard->updates.replies.whole(slot);
      CHECK(std::equal(sum.begin(), sum.end(), wanted.begin(), wanted.end()));
    }
    CHECK(rack.staging->in_use() == 0);
  }
}

TEST_CASE("pushes of few bits in a rack are read, and no others of their length") {
  for (const Encoding encoding : {Encoding::kInt8, Encoding::kInt4}) {
    JobLayout layout = deferred_layout(RuleKind::kSum, 2, DataType::kFloat32);
    layout.encoding = encoding;
    SparseRig rack(of_rack(layout, 1));
    const kernels::Bits bits = kernels::bits_of(encoding);
    std::vector<std::byte> push(kernels::quantised_bytes(rack.elements(1), bits));
    const float scale = 2.0F;
    for (std::size_t at = 0; at < push.size(); at += kernels::quantised_block_bytes(bits)) {
      std::memcpy(push.data() + at, &scale, sizeof(scale));
    }
    std::vector<float> wanted(rack.elements(1));
    for (int i = 0; i < 2; ++i) kernels::add_quantised(wanted, push.data(), bits);
    CHECK(rack.push_bytes(0, 1, false, push) == PushResult::kAccepted);
    std::vector<std::byte> longer(push.size() + 1);
    CHECK(rack.push_bytes(1, 1, true, longer) == PushResult::kBadLength);
    CHECK(rack.push_bytes(1, 1, true, push) == PushResult::kGoesUp);
    const auto sum = rack.shard->exchange->sum_to_push(1);
    REQUIRE(sum.size() == wanted.size() * sizeof(float));
    CHECK(std::memcmp(sum.data(), wanted.data(), sum.size()) == 0);
  }
}

TEST_CASE("a push in a rack that differs from its checksum ends the job, with its worker") {
  for (const bool staged : {false, true}) {
    for (const std::uint32_t culprit : {0U, 1U, 2U}) {
      JobLayout layout = deferred_layout(RuleKind::kSum, 3, DataType::kFloat32);
      layout.checksums = true;
      SparseRig rack(of_rack(layout, 1));
      rack.on_checked = [&](std::uint32_t worker, std::uint32_t, std::span<std::byte> push) {
        if (worker == culprit) push[7] ^= std::byte{1};
      };
      bool is_found = false;
      for (std::uint32_t worker = 0; worker < 3; ++worker) {
        is_found = rack.push(worker, 2, staged, noise(1)) == PushResult::kCorrupt || is_found;
      }
      CHECK(is_found);
      CHECK(rack.shard->stopped());
      CHECK(rack.shard->reader.checks()->workers()[culprit].pushes == 1);
      CHECK(rack.shard->chunk(2).state == server::ChunkState::kGathering);
    }
  }
}

TEST_CASE("each rack has the moving average of all parameters") {
  std::mt19937 random(8);
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kAdamW}) {
    JobLayout layout = deferred_layout(rule, 2, DataType::kFloat32);
    layout.ema_decay = 0.75;
    TwoRacks racks(layout);
    for (std::uint32_t round = 0; round < 4; ++round) {
      racks.root.push_all(random, noise(round));
      racks.other.push_all(random, noise(round + 10));
      racks.exchange();
      const auto there = average(racks.root);
      const auto here = average(racks.other);
      CHECK(std::equal(there.begin(), there.end(), here.begin(), here.end()));
      CHECK(std::any_of(here.begin(), here.end(), [](float value) { return value != 0.0F; }));
    }
  }
}

}  // namespace phub::testing
