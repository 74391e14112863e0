// Another rack's sums that are none, up and down: a named error, and the job is the only one that
// ends.
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"
#include "tests/support/server/sparse_bytes.h"

namespace phub {
namespace {

using server::Drop;
using testing::RacksRig;
using testing::sparse_bytes_of;
using testing::with_count;

constexpr std::uint32_t kChunkElements = 1024;
constexpr RackCompress kSomeSums{.density = 0.02F, .dense_below = 1};

std::vector<std::byte> behind(const Hyper& hyper, const std::vector<std::byte>& sum) {
  std::vector<std::byte> bytes(sizeof(hyper) + sum.size());
  std::memcpy(bytes.data(), &hyper, sizeof(hyper));
  std::copy(sum.begin(), sum.end(), bytes.begin() + sizeof(hyper));
  return bytes;
}

struct Wrong {
  std::vector<std::byte> bytes;
  Drop cause = Drop::kBadSparse;
  std::string_view reason;
};

std::vector<Wrong> wrong_sums(const std::string_view count, std::string_view index,
                              std::string_view order) {
  return {{sparse_bytes_of({kChunkElements}), Drop::kBadSparse, index},
          {sparse_bytes_of({0, 0xFFFFFFFF}), Drop::kBadSparse, index},
          {sparse_bytes_of({7, 6}), Drop::kBadSparse, order},
          {sparse_bytes_of({7, 7}), Drop::kBadSparse, order},
          {with_count(sparse_bytes_of({1, 2}), 1), Drop::kBadSparse, count},
          {with_count(sparse_bytes_of({1, 2}), 0x80000002), Drop::kBadSparse, count}};
}

// Three racks, of which rack 0 takes a stranger for the third: a rule without initial parameters,
// so that the first round is one of sums.
struct Beset {
  Beset() : rig({.workers = {1, 1, 1}, .has_stranger = true, .rack_compress = kSomeSums}) {}
  std::uint32_t slot_of_root(std::uint32_t rack) const {
    std::uint32_t slot = 0;
    while (rig.root(rig.plan->chunks[slot]) != rack) ++slot;
    return slot;
  }
  void run() {
    for (int i = 0; i < 100; ++i) rig.run_once();
  }
  // Rack 0's job, in which so much goes up that a reply of the stranger's is due.
  void push_up() {
    rig.push(0, slot_of_root(2));
    run();
    REQUIRE(rig.job(0).shard.chunk(slot_of_root(2)).is_above());
  }
  void check_ended(Drop cause, std::string_view reason) {
    CHECK(rig.core(0).drops().value(cause) == 1);
    CHECK(rig.job(0).shard.stopped());
    const auto event = rig.core(0).next_event();
    REQUIRE(event);
    CHECK(event->worker == rig.seat(0, 2));
    CHECK(event->reason == reason);
    CHECK(rig.worker(0, 0).replies == 0);
  }
  RacksRig rig;
};

}  // namespace

TEST_CASE("a rack's sum that is none ends its job with its cause", "[racks]") {
  const auto all = wrong_sums("it pushed a sparse chunk whose count is not that of its length",
                              "it pushed a sparse chunk with an index outside of the chunk",
                              "it pushed a sparse chunk whose indices do not ascend");
  for (const Wrong& wrong : all) {
    INFO(wrong.reason);
    Beset beset;
    beset.rig.push_as_stranger(beset.slot_of_root(0), wrong.bytes);
    beset.run();
    beset.check_ended(wrong.cause, wrong.reason);
    CHECK(beset.rig.job(0).staging->in_use() == 0);
  }
}

TEST_CASE("a reply from above that is none ends its job with its cause", "[racks]") {
  auto all = wrong_sums("it replied with a sparse sum whose count is not that of its length",
                        "it replied with a sparse sum with an index outside of the chunk",
                        "it replied with a sparse sum whose indices do not ascend");
  for (Wrong& wrong : all) wrong.bytes = behind({}, wrong.bytes);
  all.push_back(
      {behind({.learning_rate = std::numeric_limits<float>::quiet_NaN()}, sparse_bytes_of({1})),
       Drop::kBadHyper, "it replied with hyper-parameters that are no numbers, or out of range"});
  for (const Wrong& wrong : all) {
    INFO(wrong.reason);
    Beset beset;
    beset.push_up();
    beset.rig.reply_as_stranger(beset.slot_of_root(2), wrong.bytes);
    beset.run();
    beset.check_ended(wrong.cause, wrong.reason);
    CHECK(beset.rig.job(0).staging->in_use() == 0);
  }
}

// As shared memory and windows bring them.
TEST_CASE("what is wrong in place is found in a copy, which is given back", "[racks]") {
  using server::PushResult;
  const PushResult results[] = {PushResult::kBadIndex, PushResult::kBadIndex,
                                PushResult::kBadOrder, PushResult::kBadOrder,
                                PushResult::kBadCount, PushResult::kBadCount};
  const std::vector<Wrong> all = wrong_sums("", "", "");
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(i);
    std::vector<std::byte> sum = all[i].bytes;
    Beset beset;
    server::Shard& shard = beset.rig.job(0).shard;
    const Hyper hyper;
    const auto push = [&](std::vector<std::byte>& bytes) {
      return shard.on_push({.worker = beset.rig.seat(0, 2),
                            .slot = beset.slot_of_root(0),
                            .data = bytes.data(),
                            .bytes = static_cast<std::uint32_t>(bytes.size()),
                            .staged = false,
                            .hyper = &hyper});
    };
    CHECK(push(sum) == results[i]);
    CHECK(beset.rig.job(0).staging->in_use() == 0);
    beset.push_up();
    const std::vector<std::byte> reply = behind({}, sum);
    CHECK(shard.take_reply(beset.slot_of_root(2), reply, false) == results[i]);
    const std::vector<std::byte> longer(4096 + sizeof(Hyper) + 1);
    CHECK(shard.take_reply(beset.slot_of_root(2), longer, false) == PushResult::kBadLength);
    CHECK(beset.rig.job(0).staging->in_use() == 0);
  }
}

TEST_CASE("a sum and a reply in place count as those that are staged", "[racks]") {
  using server::PushResult;
  Beset beset;
  server::Shard& shard = beset.rig.job(0).shard;
  std::vector<std::byte> sum = sparse_bytes_of({5});
  beset.push_up();
  const std::uint32_t slot = beset.slot_of_root(2);
  CHECK(shard.take_reply(slot, behind({}, sum), false) == PushResult::kCompleted);
  CHECK(shard.take_reply(slot, behind({}, sum), false) == PushResult::kDuplicate);
  CHECK(beset.rig.job(0).staging->in_use() == 0);
}

TEST_CASE("sums of lengths that none has end their job", "[racks]") {
  for (const std::size_t bytes : {1U, 3U, 5U, 4095U, 4097U, 4112U}) {
    INFO(bytes);
    Beset beset;
    const std::vector<std::byte> sum(bytes);
    beset.rig.push_as_stranger(beset.slot_of_root(0), sum);
    beset.run();
    CHECK(beset.rig.job(0).shard.stopped());
    CHECK(beset.rig.job(0).staging->in_use() == 0);
    Beset second;
    second.push_up();
    const std::vector<std::byte> reply(bytes == 4112U ? 16U : bytes);
    second.rig.reply_as_stranger(second.slot_of_root(2), reply);
    second.run();
    CHECK(second.rig.job(0).shard.stopped());
    CHECK(second.rig.job(0).staging->in_use() == 0);
  }
}

TEST_CASE("a reply to initial parameters that are still queued harms the job alone", "[racks]") {
  RacksRig rig({.workers = {1, 1, 1},
                .rule = RuleKind::kMomentum,
                .has_stranger = true,
                .rack_compress = {.density = 0.02F, .dense_below = 1}});
  std::uint32_t slot = 0;
  while (rig.root(rig.plan->chunks[slot]) != 2) ++slot;
  rig.push(0, slot);
  for (int i = 0; i < 50 && !rig.job(0).shard.chunk(slot).is_above(); ++i) rig.core(0).run_once();
  REQUIRE(rig.job(0).shard.chunk(slot).is_above());
  REQUIRE_FALSE(rig.job(0).above[2]->replies.empty());
  rig.reply_as_stranger(slot);
  for (int i = 0; i < 100; ++i) rig.run_once();
  CHECK(rig.job(0).above[2]->replies.empty());
}

TEST_CASE("a second reply, and one to what did not go up, end their job", "[racks]") {
  const std::vector<std::byte> reply = behind({.learning_rate = 0.5F}, sparse_bytes_of({1, 2}));
  const bool pushes = GENERATE(false, true);
  Beset beset;
  if (pushes) beset.push_up();
  const std::uint32_t slot = beset.slot_of_root(2);
  beset.rig.reply_as_stranger(slot, reply);
  beset.rig.reply_as_stranger(slot, reply);
  beset.run();
  CHECK(beset.rig.job(0).shard.stopped());
  CHECK(beset.rig.job(0).staging->in_use() == 0);
}

// Any words in place of a sum's: rounds go on, or end with one of the causes that sums have.
TEST_CASE("what a rack makes up harms its job alone", "[racks]") {
  std::mt19937 random(21);
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    Beset beset;
    std::vector<std::uint32_t> indices(random() % 512);
    std::iota(indices.begin(), indices.end(), 0U);
    std::vector<std::byte> bytes = sparse_bytes_of(indices);
    const bool is_reply = random() % 2 == 0;
    if (is_reply) bytes = behind({.learning_rate = 0.5F}, bytes);
    if (random() % 4 == 0) bytes.resize(1 + random() % 4200);
    for (auto n = random() % 3; n > 0 && bytes.size() >= 4; --n) {
      const std::uint32_t words[] = {
          0, 1, 0xFFFFFFFF, 0x7FC00000, kChunkElements, static_cast<std::uint32_t>(random())};
      std::memcpy(bytes.data() + random() % (bytes.size() / 4) * 4, &words[random() % 6], 4);
    }
    if (is_reply) {
      beset.push_up();
      beset.rig.reply_as_stranger(beset.slot_of_root(2), bytes);
    } else {
      beset.rig.push_as_stranger(beset.slot_of_root(0), bytes);
    }
    beset.run();
    const auto& drops = beset.rig.core(0).drops();
    const std::uint64_t refused = drops.value(Drop::kBadSparse) + drops.value(Drop::kBadLength) +
                                  drops.value(Drop::kBadFrame) + drops.value(Drop::kBadHyper);
    CHECK(beset.rig.job(0).shard.stopped() == (refused == 1));
    if (refused == 0) ++taken;
    CHECK_FALSE(beset.rig.job(1).shard.stopped());
  }
  CHECK(taken > 20);
}

}  // namespace phub
