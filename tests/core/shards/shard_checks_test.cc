// Checksums on a shard: a push with another one than its own is found, with its worker, key and
// round, and is in no sum.
#include <catch2/catch.hpp>
#include <deque>
#include <set>

#include "kernels/quantise.h"
#include "tests/support/server/sparse_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::PushResult;
using server::WorkerCorruption;

JobLayout checked_layout(RuleKind rule, std::uint32_t workers, DataType type,
                         Encoding encoding = Encoding::kDense) {
  JobLayout layout = deferred_layout(rule, workers, type);
  layout.checksums = true;
  layout.encoding = encoding;
  return layout;
}

JobLayout unchecked(JobLayout layout) {
  layout.checksums = false;
  return layout;
}

void flip(std::span<std::byte> bytes, std::uint64_t bit) {
  bytes[bit / 8 % bytes.size()] ^= std::byte{1} << (bit % 8);
}

std::uint32_t first_key(const JobLayout& layout, std::uint32_t slot) {
  const Plan& plan = *layout.plan;
  return plan.segments[plan.chunks[plan.core_chunks[0][0][slot]].first_segment].key;
}

std::uint32_t elements_of(const JobLayout& layout, std::uint32_t slot) {
  const Plan& plan = *layout.plan;
  return plan.chunks[plan.core_chunks[0][0][slot]].elements;
}

// A chunk in few bits, as a worker packs it.
std::vector<std::byte> packed(const JobLayout& layout, std::uint32_t slot, std::mt19937& random) {
  const std::uint32_t elements = elements_of(layout, slot);
  const kernels::Bits bits = kernels::bits_of(layout.encoding);
  std::vector<std::byte> bytes(kernels::quantised_bytes(elements, bits));
  const std::size_t stride = kernels::quantised_block_bytes(bits);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += stride) {
    const float scale = 0.5F;
    std::memcpy(bytes.data() + at, &scale, sizeof(scale));
  }
  return bytes;
}

// Pushes of rounds, in which one bit of one push is flipped.
class FlipRig {
 public:
  FlipRig(const JobLayout& layout, std::uint32_t seed) : rig_(layout), random_(seed) {
    const bool starts = has_parameters(layout.rule);
    victim_ = {.worker = static_cast<std::uint32_t>(random_() % layout.workers),
               .slot = static_cast<std::uint32_t>(random_() % rig_.shard->chunks()),
               .round = (starts ? 0U : 1U) + static_cast<std::uint32_t>(random_() % 3)};
    rig_.on_checked = [this](std::uint32_t worker, std::uint32_t slot, std::span<std::byte> push) {
      const bool is_victim = worker == victim_.worker && slot == victim_.slot;
      if (is_victim && round_ == victim_.round) flip(push, random_());
    };
    for (round_ = starts ? 0 : 1; round_ <= victim_.round; ++round_) push_all();
  }

  // Just the victim is found, and its chunk is not complete.
  bool is_found() const {
    const auto& found = rig_.shard->reader.checks()->workers();
    for (std::uint32_t w = 0; w < found.size(); ++w) {
      if (w != victim_.worker && found[w].pushes != 0) return false;
    }
    const WorkerCorruption& own = found[victim_.worker];
    return rig_.shard->stopped() && is_refused_ && own.pushes == 1 && own.round == victim_.round &&
           own.key == first_key(rig_.layout, victim_.slot) &&
           rig_.shard->chunk(victim_.slot).rounds == victim_.rounds_before(rig_.layout);
  }

 private:
  struct Victim {
    std::uint32_t worker = 0;
    std::uint32_t slot = 0;
    std::uint32_t round = 0;

    std::uint64_t rounds_before(const JobLayout& layout) const {
      return has_parameters(layout.rule) ? round : round - 1;
    }
  };

  // The victim's chunk last, so that the rounds before it are whole.
  void push_all() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pushes;
    for (std::uint32_t w = 0; w < rig_.layout.workers; ++w) {
      for (std::uint32_t slot = 0; slot < rig_.shard->chunks(); ++slot)
        pushes.emplace_back(w, slot);
    }
    std::shuffle(pushes.begin(), pushes.end(), random_);
    for (const auto& [worker, slot] : pushes) {
      const bool staged = random_() % 2 == 0;
      is_refused_ = push(worker, slot, staged) == PushResult::kCorrupt || is_refused_;
      rig_.update_all_due();
    }
  }

  PushResult push(std::uint32_t worker, std::uint32_t slot, bool staged) {
    const bool is_initial = has_parameters(rig_.layout.rule) && round_ == 0;
    const Encoding encoding = rig_.layout.encoding;
    if (encoding == Encoding::kDense || is_initial) {
      return rig_.push(worker, slot, staged, noise(round_));
    }
    if (encoding == Encoding::kSparse) {
      const SparseChunk some = some_of(elements_of(rig_.layout, slot), random_);
      if (!wire::is_smaller_sparse(some.indices.size(), elements_of(rig_.layout, slot),
                                   rig_.layout.wire_type)) {
        return rig_.push(worker, slot, staged, noise(round_));
      }
      return rig_.push_sparse(worker, slot, staged, some);
    }
    kept_.push_back(packed(rig_.layout, slot, random_));
    if (kept_.back().size() >= rig_.shard->push_bytes(slot)) {
      return rig_.push(worker, slot, staged, noise(round_));
    }
    return rig_.push_bytes(worker, slot, staged, kept_.back());
  }

  SparseRig rig_;
  std::mt19937 random_;
  Victim victim_;
  std::uint32_t round_ = 0;
  bool is_refused_ = false;
  std::deque<std::vector<std::byte>> kept_;
};

TEST_CASE("of a thousand flipped bits each is found, with worker, key and round") {
  std::uint32_t seed = 0;
  for (int i = 0; i < 6; ++i) {
    for (const RuleKind rule : {RuleKind::kMean, RuleKind::kNesterov, RuleKind::kAdam}) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
        for (const Encoding encoding :
             {Encoding::kDense, Encoding::kSparse, Encoding::kInt8, Encoding::kInt4}) {
          for (const bool in_order : {true, false}) {
            for (const std::uint32_t workers : {1U, 3U, 8U}) {
              CAPTURE(name_of(rule), name_of(type), name_of(encoding), in_order, workers, seed);
              JobLayout layout = checked_layout(rule, workers, type, encoding);
              layout.deterministic = in_order;
              REQUIRE(FlipRig(layout, ++seed).is_found());
            }
          }
        }
      }
    }
  }
  CHECK(seed >= 1000);
}

TEST_CASE("with a quorum, loss scales, lars and many workers a flipped bit is found too") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    JobLayout many = checked_layout(RuleKind::kSgd, 70, DataType::kFloat16);
    many.deterministic = seed % 2 == 0;
    REQUIRE(FlipRig(many, seed).is_found());
    JobLayout scaled = checked_layout(RuleKind::kMomentum, 3, DataType::kFloat16);
    scaled.loss_scale = {LossScaling::kStatic, 4.0F};
    REQUIRE(FlipRig(scaled, seed).is_found());
    REQUIRE(FlipRig(checked_layout(RuleKind::kLars, 3, DataType::kFloat32), seed).is_found());
  }
}

TEST_CASE("with checksums sums have the bits that they have without") {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    for (const std::uint32_t workers : {1U, 5U, 70U}) {
      CAPTURE(name_of(type), workers);
      ShardRig rig(checked_layout(RuleKind::kMomentum, workers, type));
      ShardRig plain(unchecked(rig.layout));
      CHECK_FALSE(rig.shard->is_plain());
      CHECK(plain.shard->is_plain());
      std::mt19937 random(7);
      for (std::uint32_t round = 0; round < 4; ++round) {
        std::mt19937 same = random;
        rig.push_all(random, noise(round));
        plain.push_all(same, noise(round));
      }
      CHECK(rig.shard->reader.checks()->findings.value() == 0);
      for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
        REQUIRE(rig.shard->chunk(slot).rounds == 4);
        REQUIRE(rig.reply(slot) == plain.reply(slot));
      }
    }
  }
}

TEST_CASE("a bit that flips while a push waits where it is, is found before it is added") {
  ShardRig rig(checked_layout(RuleKind::kMean, 3, DataType::kFloat32));
  std::span<std::byte> waiting;
  rig.on_checked = [&](std::uint32_t worker, std::uint32_t, std::span<std::byte> push) {
    if (worker == 1) waiting = push;
  };
  const auto ones = [](auto...) { return 1.0F; };
  CHECK(rig.push(0, 0, false, ones) == PushResult::kAccepted);
  CHECK(rig.push(1, 0, false, ones) == PushResult::kAccepted);
  flip(waiting, 77);
  CHECK(rig.push(2, 0, true, ones) == PushResult::kCorrupt);
  CHECK(rig.shard->reader.checks()->workers()[1].pushes == 1);
  CHECK(rig.shard->reader.checks()->findings.value() == 1);
  CHECK(rig.shard->updates.chunks_completed.value() == 0);
  CHECK(rig.push(0, 1, false, ones) == PushResult::kStopped);
}

TEST_CASE("of a chunk's pushes in place each that differs is found") {
  for (const bool in_order : {true, false}) {
    JobLayout layout = checked_layout(RuleKind::kMean, 5, DataType::kFloat32);
    layout.deterministic = in_order;
    ShardRig rig(layout);
    rig.on_checked = [&](std::uint32_t worker, std::uint32_t, std::span<std::byte> push) {
      if (worker == 1 || worker == 3) flip(push, worker);
    };
    const auto ones = [](auto...) { return 1.0F; };
    for (const std::uint32_t worker : {4U, 3U, 0U, 1U}) {
      CHECK(rig.push(worker, 2, false, ones) == PushResult::kAccepted);
    }
    CHECK(rig.push(2, 2, false, ones) == PushResult::kCorrupt);
    for (std::uint32_t w = 0; w < 5; ++w) {
      CHECK(rig.shard->reader.checks()->workers()[w].pushes == (w == 1 || w == 3 ? 1 : 0));
    }
  }
}

TEST_CASE("who pushes a chunk twice is refused for that, and not compared") {
  for (const bool staged : {true, false}) {
    ShardRig rig(checked_layout(RuleKind::kMean, 2, DataType::kFloat32));
    const auto ones = [](auto...) { return 1.0F; };
    CHECK(rig.push(1, 0, staged, ones) == PushResult::kAccepted);
    const std::size_t in_use = rig.staging->in_use();
    rig.on_checked = [](std::uint32_t, std::uint32_t, std::span<std::byte> push) { flip(push, 3); };
    std::vector<std::byte> again(rig.shard->push_bytes(0) + sizeof(std::uint32_t));
    CHECK(rig.arrive(1, 0, std::span(again).first(rig.shard->push_bytes(0)), false) ==
          PushResult::kDuplicate);
    CHECK(rig.staging->in_use() == in_use);
    CHECK(rig.shard->reader.checks()->findings.value() == 0);
    CHECK_FALSE(rig.shard->stopped());
  }
}

TEST_CASE("a window's pushes end with their checksum, and may have no other length") {
  for (const Encoding encoding : {Encoding::kDense, Encoding::kSparse}) {
    for (const std::int32_t more : {-1, 0, 4, 5}) {
      CAPTURE(name_of(encoding), more);
      const JobLayout layout = checked_layout(RuleKind::kMean, 1, DataType::kFloat32, encoding);
      SparseRig rig(layout);
      const auto window = std::make_shared<const WindowLayout>(
          make_window_layout(*layout.plan, 0, 0, sizeof(float), true));
      std::vector<std::byte> memory(window->bytes);
      rig.shard->reader.checks()->read_from(0, memory.data(), window);
      const std::uint32_t dense = rig.shard->push_bytes(0);
      std::byte* const place = memory.data() + window->slots[0];
      const std::uint32_t checksum = crc32c({place, dense});
      std::memcpy(place + dense, &checksum, sizeof(checksum));
      const auto result = rig.shard->on_push({.worker = 0,
                                              .slot = 0,
                                              .data = place,
                                              .bytes = dense + static_cast<std::uint32_t>(more),
                                              .staged = false,
                                              .hyper = &layout.hyper});
      if (more == 4) {
        CHECK(result == PushResult::kCompleted);
      } else {
        CHECK(result == (encoding == Encoding::kSparse && more < 4 ? PushResult::kCorrupt
                                                                   : PushResult::kBadLength));
      }
    }
  }
}

TEST_CASE("what a local worker shares has its checksums by chunk") {
  const JobLayout layout = checked_layout(RuleKind::kMean, 1, DataType::kFloat16);
  ShardRig rig(layout);
  const auto shared = std::make_shared<const WindowLayout>(
      make_shared_window_layout(*layout.plan, 0, 0, sizeof(std::uint16_t), true));
  std::vector<std::byte> memory(shared_memory_bytes(*layout.plan, sizeof(std::uint16_t), true));
  rig.shard->reader.checks()->read_from(0, memory.data(), shared);
  std::set<std::uint64_t> places;
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    REQUIRE(shared->checksums[slot] % sizeof(std::uint32_t) == 0);
    REQUIRE(shared->checksums[slot] + sizeof(std::uint32_t) <= memory.size());
    REQUIRE(places.insert(shared->checksums[slot]).second);
    const std::span<std::byte> push(memory.data() + shared->slots[slot],
                                    rig.shard->push_bytes(slot));
    REQUIRE(push.data() + push.size() <= memory.data() + shared->checksums[0]);
    flip(push, slot);
    const std::uint32_t checksum = crc32c(push);
    std::memcpy(memory.data() + shared->checksums[slot], &checksum, sizeof(checksum));
    REQUIRE(rig.shard->on_push({.worker = 0,
                                .slot = slot,
                                .data = push.data(),
                                .bytes = static_cast<std::uint32_t>(push.size()),
                                .staged = false,
                                .hyper = &layout.hyper}) == PushResult::kCompleted);
  }
}

TEST_CASE("a job takes pushes with checksums, or without, as it is made") {
  for (const bool checksums : {true, false}) {
    JobLayout layout = checked_layout(RuleKind::kMean, 1, DataType::kFloat32);
    layout.checksums = checksums;
    ShardRig rig(layout);
    const std::uint32_t bytes = rig.shard->push_bytes(0);
    CHECK(rig.shard->reader.may_push(0, bytes) != checksums);
    CHECK(rig.shard->reader.may_push_checked(0, bytes) == checksums);
    CHECK_FALSE(rig.shard->reader.may_push_checked(0, bytes + 1));
    CHECK_FALSE(rig.shard->reader.may_push_checked(rig.shard->chunks(), bytes));
    CHECK_FALSE(rig.shard->reader.may_push(rig.shard->chunks(), bytes));
  }
}

}  // namespace
}  // namespace phub::testing
