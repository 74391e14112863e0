// Replies that have only what changed: who takes each of them has the parameters, bit for bit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/server/sparse_rig.h"

namespace phub::testing {
namespace {

using server::PushResult;

server::JobLayout without_decay(RuleKind rule, DataType type) {
  server::JobLayout layout = sparse_layout(rule, 3, type);
  std::ranges::fill(layout.weight_decay, 0.0F);
  return layout;
}

// A worker's copy of the parameters, by slot.
class Copy {
 public:
  explicit Copy(const SparseRig& rig) : rig_(rig), chunks_(rig.shard->chunks()) {}

  // Takes a reply; its bytes.
  std::size_t take(std::uint32_t slot) {
    const auto reply = rig_.shard->updates.replies.smallest(slot);
    std::vector<std::byte>& own = chunks_[slot];
    if (reply.size() == rig_.shard->push_bytes(slot)) {
      own.assign(reply.begin(), reply.end());
      return reply.size();
    }
    const DataType type = rig_.layout.wire_type;
    const auto parsed = wire::parse_sparse(reply, type, rig_.elements(slot));
    REQUIRE(parsed.fault == wire::SparseFault::kNone);
    for (std::uint32_t i = 0; i < parsed.push.count; ++i) {
      std::memcpy(own.data() + parsed.push.indices[i] * size_of(type),
                  parsed.push.values + i * size_of(type), size_of(type));
    }
    return reply.size();
  }

  bool is_right(std::uint32_t slot) const {
    const auto whole = rig_.shard->updates.replies.whole(slot);
    return std::equal(whole.begin(), whole.end(), chunks_[slot].begin(), chunks_[slot].end());
  }

 private:
  const SparseRig& rig_;
  std::vector<std::vector<std::byte>> chunks_;
};

float initial(std::uint32_t, std::uint32_t key, std::uint64_t i) {
  return 1.0F + static_cast<float>(i % 13) + static_cast<float>(key);
}

// Every 50th element or so, other ones in each round and at each worker.
float few(std::uint32_t worker, std::uint64_t i, int round) {
  const std::uint64_t mixed =
      (i * 2654435761U + worker * 40503U + static_cast<unsigned>(round) * 7919U) % 8191U;
  return mixed % 50 == 0 ? 1.0F + static_cast<float>(mixed % 7) : 0.0F;
}

void begin(SparseRig& rig, Copy& copy) {
  std::mt19937 random(3);
  rig.push_all(random, initial);
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    CHECK(copy.take(slot) == rig.shard->push_bytes(slot));
    CHECK(copy.is_right(slot));
  }
}

TEST_CASE("who takes what changed has the parameters, and it is what was pushed, at most") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16}) {
    SparseRig rig(without_decay(RuleKind::kSgd, type));
    Copy copy(rig);
    begin(rig, copy);
    std::mt19937 random(5);
    for (int round = 1; round < 20; ++round) {
      std::size_t bytes = 0;
      std::size_t whole = 0;
      for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
        for (std::uint32_t w = 0; w < 3; ++w) {
          const auto value = [&](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
            return few(worker, i, round);
          };
          const PushResult result = rig.push_some(w, slot, random, value);
          CHECK(result == (w == 2 ? PushResult::kCompleted : PushResult::kAccepted));
        }
        bytes += copy.take(slot);
        whole += rig.shard->push_bytes(slot);
        REQUIRE(copy.is_right(slot));
      }
      CHECK(3 * bytes < whole);
    }
  }
}

TEST_CASE(
    "a reply is whole where more changed than is smaller, and small again in the next round") {
  SparseRig rig(without_decay(RuleKind::kSgd, DataType::kFloat32));
  Copy copy(rig);
  begin(rig, copy);
  const std::uint32_t slot = 1;
  const std::uint32_t elements = rig.elements(slot);
  const auto push = [&](const SparseChunk& some) {
    for (std::uint32_t w = 0; w < 3; ++w) rig.push_sparse(w, slot, true, some);
    const std::size_t bytes = copy.take(slot);
    CHECK(copy.is_right(slot));
    return bytes;
  };
  const auto first = [&](std::uint32_t count) {
    SparseChunk some;
    for (std::uint32_t i = 0; i < count; ++i) some.indices.push_back(i);
    some.values.assign(count, 8.0F);
    return some;
  };
  CHECK(push({}) == 4);  // nothing changed
  CHECK(push({{0, elements - 1}, {4.0F, 8.0F}}) == 20);
  std::mt19937 random(7);
  for (std::uint32_t w = 0; w < 3; ++w) {
    rig.push(w, slot, true, [](std::uint32_t, std::uint32_t, std::uint64_t) { return 1.0F; });
  }
  CHECK(copy.take(slot) == rig.shard->push_bytes(slot));
  CHECK(copy.is_right(slot));
  // (4 + 8 count) bytes are below 4 for each element.
  const std::uint32_t most = (elements - 2) / 2;
  CHECK(push(first(most)) == 4 + 8 * most);
  CHECK(push({{3}, {1.0F}}) == 12);
}

TEST_CASE("of deferred updates, and of those that were left out, replies have what changed") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    server::JobLayout layout = without_decay(RuleKind::kSgd, type);
    layout.loss_scale = {.kind = LossScaling::kStatic, .factor = 1.0F};
    SparseRig rig(layout);
    Copy copy(rig);
    begin(rig, copy);
    const std::uint32_t slot = 1;
    for (const float gradient : {8.0F, std::nanf(""), 16.0F}) {
      for (std::uint32_t w = 0; w < 3; ++w)
        rig.push_sparse(w, slot, true, {{5, 9}, {2.0F, gradient}});
      CHECK(rig.shard->chunk(slot).skipped == std::isnan(gradient));
      CHECK(copy.take(slot) == (std::isnan(gradient) ? 4 : 4 + 2 * (4 + size_of(type))));
      CHECK(copy.is_right(slot));
    }
  }
}

TEST_CASE("jobs have sparse replies where all workers have all of them and something may stay") {
  server::JobLayout layout = without_decay(RuleKind::kSgd, DataType::kFloat32);
  CHECK(has_sparse_replies(layout));
  layout.rule = RuleKind::kMomentum;
  CHECK_FALSE(has_sparse_replies(layout));
  layout.wire_type = DataType::kBfloat16;
  CHECK(has_sparse_replies(layout));
  layout.rule = RuleKind::kSum;
  CHECK_FALSE(has_sparse_replies(layout));
  layout.rule = RuleKind::kSgd;
  layout.rounds = {.quorum = 2};
  CHECK_FALSE(has_sparse_replies(layout));
  layout.rounds = {};
  layout.encoding = Encoding::kInt8;
  CHECK_FALSE(has_sparse_replies(layout));
  layout.encoding = Encoding::kDense;
  CHECK_FALSE(has_sparse_replies(layout));
}

}  // namespace
}  // namespace phub::testing
