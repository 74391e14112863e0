// Sparse pushes: the sum that dense ones with zeros would have, in every order; and what is wrong
// with one changes no sum.
#include <catch2/catch.hpp>

#include "kernels/quantise_reference.h"
#include "tests/support/server/sparse_rig.h"

namespace phub::testing {
namespace {

using server::PushResult;

TEST_CASE("a sum of sparse and dense pushes has the bits of dense ones, in every order") {
  constexpr std::uint32_t kWorkers = 5;
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    std::mt19937 random(71);
    SparseRig rig(sparse_layout(RuleKind::kSum, kWorkers, type));
    ShardRig dense(deferred_layout(RuleKind::kSum, kWorkers, type));
    for (int round = 0; round < 20; ++round) {
      for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
        const std::uint32_t elements = rig.elements(slot);
        std::vector<std::uint32_t> order(kWorkers);
        for (std::uint32_t w = 0; w < kWorkers; ++w) order[w] = w;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<SparseChunk> chunks(kWorkers);
        for (const std::uint32_t w : order) {
          chunks[w] = some_of(elements, random);
          std::vector<float> whole(elements);
          for (std::size_t i = 0; i < chunks[w].indices.size(); ++i) {
            whole[chunks[w].indices[i]] = chunks[w].values[i];
          }
          std::vector<std::byte> bytes(elements * size_of(type));
          kernels::reference::convert(bytes.data(), type,
                                      reinterpret_cast<const std::byte*>(whole.data()),
                                      DataType::kFloat32, elements);
          const bool is_small = wire::is_smaller_sparse(chunks[w].indices.size(), elements, type);
          const bool staged = random() % 2 == 0;
          const PushResult result = is_small && random() % 3 != 0
                                        ? rig.push_sparse(w, slot, staged, chunks[w])
                                        : rig.push_bytes(w, slot, true, bytes);
          CHECK(result == (w == order.back() ? PushResult::kCompleted : PushResult::kAccepted));
          std::byte* const place = dense.staging->take_for_push();
          std::memcpy(place, bytes.data(), bytes.size());
          dense.shard->on_push({.worker = w,
                                .slot = slot,
                                .data = place,
                                .bytes = static_cast<std::uint32_t>(bytes.size()),
                                .staged = true,
                                .hyper = &dense.layout.hyper});
        }
        REQUIRE(rig.reply(slot) == dense.reply(slot));
      }
      CHECK(rig.staging->in_use() == 0);
    }
  }
}

TEST_CASE("of a job in the order of arrival sparse pushes are added as they come") {
  server::JobLayout layout = sparse_layout(RuleKind::kSum, 3, DataType::kFloat32);
  layout.deterministic = false;
  SparseRig rig(layout);
  const std::uint32_t slot = 1;
  CHECK(rig.push_sparse(2, slot, false, {{0}, {-1.0F}}) == PushResult::kAccepted);
  CHECK(rig.staging->in_use() == 1);  // the sum
  CHECK(rig.push_sparse(0, slot, true, {{0, 1}, {1.0F, 4.0F}}) == PushResult::kAccepted);
  CHECK(rig.staging->in_use() == 1);
  CHECK(rig.push_sparse(1, slot, false, {{0}, {1e-8F}}) == PushResult::kCompleted);
  CHECK(rig.reply(slot)[0] == 1e-8F);  // (-1 + 1) + 1e-8
  CHECK(rig.reply(slot)[1] == 4.0F);
}

TEST_CASE("a dense push in place is added in its order between sparse ones") {
  SparseRig rig(sparse_layout(RuleKind::kSum, 3, DataType::kFloat32));
  const std::uint32_t slot = 1;
  const std::uint32_t elements = rig.elements(slot);
  const auto ones = [](std::uint32_t, std::uint32_t, std::uint64_t) { return 1.0F; };
  CHECK(rig.push_sparse(2, slot, false, {{0}, {1e-8F}}) == PushResult::kAccepted);
  CHECK(rig.push(1, slot, false, ones) == PushResult::kAccepted);
  CHECK(rig.push_sparse(0, slot, false, {{0, elements - 1}, {-1.0F, 5.0F}}) ==
        PushResult::kCompleted);
  const auto sum = rig.reply(slot);
  CHECK(sum[0] == 1e-8F);  // (-1 + 1) + 1e-8; in another order it is 0
  CHECK(sum[1] == 1.0F);
  CHECK(sum[elements - 1] == 6.0F);
}

TEST_CASE("with a rule the sum of sparse pushes is its gradient, after dense initial values") {
  SparseRig rig(sparse_layout(RuleKind::kSgd, 2, DataType::kFloat32));
  const std::uint32_t slot = 1;
  const auto initial = [](std::uint32_t worker, std::uint32_t, std::uint64_t) {
    return worker == 0 ? 3.0F : 9.0F;
  };
  CHECK(rig.push_sparse(1, slot, false, {{0}, {1.0F}}) == PushResult::kBadLength);
  CHECK(rig.push(0, slot, true, initial) == PushResult::kAccepted);
  CHECK(rig.push(1, slot, true, initial) == PushResult::kCompleted);
  CHECK(rig.push_sparse(1, slot, true, {{0, 2}, {4.0F, 8.0F}}) == PushResult::kAccepted);
  CHECK(rig.push_sparse(0, slot, false, {{2}, {8.0F}}) == PushResult::kCompleted);
  const auto weights = rig.reply(slot);
  const float decay = rig.layout.weight_decay[1];
  const auto stepped = [&](float gradient) {
    return 3.0F - 0.5F * (gradient * 0.25F + decay * 3.0F);
  };
  CHECK(weights[0] == stepped(4.0F));
  CHECK(weights[1] == stepped(0.0F));
  CHECK(weights[2] == stepped(16.0F));
}

// Sums that wait for a norm are taken from where pushes were added up.
TEST_CASE("clipped, averaged and adaptive updates of sparse pushes have the bits of dense ones") {
  std::mt19937 random(73);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kNesterov, RuleKind::kAdamW}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      CAPTURE(name_of(rule), name_of(type));
      server::JobLayout layout = deferred_layout(rule, 3, type);
      layout.clip_norm = 0.5F;
      layout.ema_decay = 0.9;
      ShardRig dense(layout);
      layout.encoding = Encoding::kSparse;
      SparseRig rig(layout);
      dense.push_all(random, noise(0));
      rig.push_all(random, noise(0));
      for (std::uint32_t round = 1; round < 5; ++round) {
        // Of every fifth element, so that a sparse push is smaller.
        const auto value = [round](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
          return i % 5 == 0 ? noise(round)(worker, key, i) : 0.0F;
        };
        dense.push_all(random, value);
        dense.update_all_due();
        for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
          for (const std::uint32_t worker : {2U, 0U, 1U})
            rig.push_some(worker, slot, random, value);
        }
        rig.update_all_due();
        for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
          REQUIRE(rig.reply(slot) == dense.reply(slot));
        }
      }
      CHECK(std::memcmp(rig.memory->state->data(), dense.memory->state->data(),
                        dense.memory->state->size()) == 0);
      CHECK(rig.staging->in_use() == 0);
    }
  }
}

TEST_CASE("pushes in few bits are added in their order, and only whole") {
  for (const Encoding encoding : {Encoding::kInt8, Encoding::kInt4}) {
    server::JobLayout layout = sparse_layout(RuleKind::kSum, 3, DataType::kFloat32);
    layout.encoding = encoding;
    SparseRig rig(layout);
    const std::uint32_t slot = 1;
    const std::uint32_t elements = rig.elements(slot);
    const kernels::Bits bits = kernels::bits_of(encoding);
    std::vector<float> expected(elements, 0.0F);
    std::vector<std::vector<std::byte>> pushes;
    for (std::uint32_t w = 0; w < 3; ++w) {
      std::vector<float> values(elements);
      for (std::uint32_t i = 0; i < elements; ++i) values[i] = noise(w)(w, 1, i);
      pushes.emplace_back(kernels::quantised_bytes(elements, bits));
      kernels::reference::quantise(pushes[w].data(), values, bits);
      kernels::reference::add_quantised(expected, pushes[w].data(), bits);
    }
    CHECK(rig.push_bytes(2, slot, false, pushes[2]) == PushResult::kAccepted);
    CHECK(rig.push_bytes(0, slot, true, pushes[0]) == PushResult::kAccepted);
    std::vector<std::byte> shorter(pushes[1].begin(), pushes[1].end() - 4);
    CHECK(rig.push_bytes(1, slot, false, shorter) == PushResult::kBadLength);
    CHECK(rig.push_bytes(1, slot, false, pushes[1]) == PushResult::kCompleted);
    CHECK(rig.reply(slot) == expected);
    CHECK(rig.staging->in_use() == 0);
  }
}

TEST_CASE("a sparse push with a fault is refused by its name, and its buffer given back") {
  for (const bool staged : {false, true}) {
    SparseRig rig(sparse_layout(RuleKind::kSum, 2, DataType::kFloat32));
    const std::uint32_t slot = 1;
    const std::uint32_t elements = rig.elements(slot);
    CHECK(rig.push_sparse(0, slot, staged, {{elements}, {1.0F}}) == PushResult::kBadIndex);
    CHECK(rig.push_sparse(1, slot, staged, {{4, 4}, {1.0F, 1.0F}}) == PushResult::kBadOrder);
    CHECK(rig.push_sparse(0, slot + 1, staged, {{4, 3}, {1.0F, 1.0F}}) == PushResult::kBadOrder);
    std::vector<std::byte> wrong(16);
    CHECK(rig.push_bytes(1, slot + 1, staged, wrong) == PushResult::kBadCount);
    std::vector<std::byte> nothing;
    CHECK(rig.push_bytes(0, slot + 2, staged, nothing) == PushResult::kBadCount);
    std::vector<std::byte> longer(rig.shard->push_bytes(slot + 2) + 4);
    CHECK(rig.push_bytes(1, slot + 2, false, longer) == PushResult::kBadLength);
    CHECK(rig.staging->in_use() == 0);
  }
}

TEST_CASE("a job that is dense takes no sparse push") {
  SparseRig rig(deferred_layout(RuleKind::kSum, 2, DataType::kFloat32));
  CHECK(rig.push_sparse(0, 1, true, {{0}, {1.0F}}) == PushResult::kBadLength);
  CHECK(rig.staging->in_use() == 0);
  CHECK_FALSE(rig.shard->reader.may_push(1, 12));
}

// Where it is shared the worker may change it after it was looked at.
TEST_CASE("a sparse push in place that waits for others is one that its worker cannot change") {
  SparseRig rig(sparse_layout(RuleKind::kSum, 2, DataType::kFloat32));
  const std::uint32_t slot = 1;
  std::vector<std::byte> shared(wire::sparse_bytes(1, DataType::kFloat32));
  const auto to = wire::begin_sparse(shared.data(), 1);
  to.indices[0] = 3;
  const float value = 2.0F;
  std::memcpy(to.values, &value, sizeof(value));
  CHECK(rig.push_bytes(1, slot, false, shared) == PushResult::kAccepted);
  to.indices[0] = 0xFFFFFFF0;
  CHECK(rig.push_sparse(0, slot, false, {{3}, {1.0F}}) == PushResult::kCompleted);
  CHECK(rig.reply(slot)[3] == 3.0F);
}

}  // namespace
}  // namespace phub::testing
