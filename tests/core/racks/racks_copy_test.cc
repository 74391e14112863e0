// Copies of a rack's chunks while replies of the rack above arrive. Each copy is of one round, ends
// when that round is over, and has all that later rounds are made of.
#include <cstring>

#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"
#include "tests/support/server/streams_rig.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;

bool has_bits_of(const float* values, const std::vector<float>& wanted) {
  return std::memcmp(values, wanted.data(), wanted.size() * sizeof(float)) == 0;
}

// A chunk of rack 0's that is pushed to rack 2, whose replies the test sends byte by byte.
class RepliedChunk {
 public:
  RepliedChunk(DataType wire_type, DataType rack_wire_type)
      : type_(wire_type),
        rounded_(rack_wire_type),
        rig_({.workers = {1, 1, 1},
              .rule = RuleKind::kSgd,
              .wire_type = wire_type,
              .rack_wire_type = rack_wire_type,
              .has_stranger = true}) {
    const auto& chunks = rig_.plan->chunks;
    while (rig_.root(chunks[slot_]) != 2) ++slot_;
    std::mt19937 random(3);
    rig_.randomise(random);
    sum_ = rig_.values(rig_.worker(0, 0).gradients, chunk());
    rest_before_.resize(sum_.size());
    rest_.resize(sum_.size());
    copy_ = std::move(*server::JobCopy::create(*rig_.plan, 0, keeps_rest() ? 1 : 0));
    push();
    reply_rest({});
  }

  // A copy begins when `bytes` of the reply have come. Its round; 0: it does not end before the
  // reply's round does, or is not of its round.
  std::uint64_t round_with_copy(std::size_t bytes) {
    const auto frame = next_reply();
    push();
    if (keeps_rest()) round_sum();
    rig_.send_as_stranger(std::span(frame).first(bytes));
    settle();
    auto& copying = rig_.job(0).shard.updates.copying;
    copy_->round = std::max<std::uint64_t>(1, rig_.job(0).shard.rounds_to_copy(1));
    if (!copying.begin(copy_)) return 0;
    copying.copy_some(kAll);
    reply_rest(std::span(frame).subspan(bytes));
    const bool has_ended = copying.copy_some(kAll) == rig_.plan->chunks.size() - 1;
    copying.end();
    return has_ended && is_of_its_round() ? copy_->round : 0;
  }
  std::uint64_t rounds() const { return rounds_; }
  std::size_t reply_bytes() const { return sizeof(transport::FrameHeader) + payload(0).size(); }

 private:
  static constexpr std::uint32_t kAll = 1000;

  const Chunk& chunk() const { return rig_.plan->chunks[slot_]; }
  bool keeps_rest() const { return rounded_ != DataType::kFloat32; }

  std::vector<float> parameters(std::uint64_t round) const {
    std::vector<float> values(chunk().elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 7 + round * 13) % 101) - 50.0F;  // 16 bits have them all
    }
    return values;
  }
  std::vector<std::byte> payload(std::uint64_t round) const {
    const std::vector<float> values = parameters(round);
    std::vector<std::byte> bytes(values.size() * size_of(type_));
    kernels::convert(bytes.data(), type_, reinterpret_cast<const std::byte*>(values.data()),
                     DataType::kFloat32, values.size());
    return bytes;
  }
  std::vector<std::byte> next_reply() const {
    return testing::StreamsJob::frame_of(
        wire::reply(slot_, RacksRig::epoch(2), /*is_skipped=*/false), payload(rounds_ + 1));
  }

  void push() {
    rig_.worker(0, 0).push(slot_, RacksRig::epoch(0));
    settle();
  }
  // All of it, or what is left of it.
  void reply_rest(std::span<const std::byte> rest) {
    const auto whole = next_reply();
    rig_.send_as_stranger(rest.empty() && rounds_ == 0 ? std::span(whole) : rest);
    settle();
    ++rounds_;
  }
  void settle() {
    for (int idle = 0; idle < 3; ++idle) {
      if (rig_.run_once()) idle = 0;
    }
  }
  // What the rack keeps of its sum, which is the same in each round.
  void round_sum() {
    rest_before_ = rest_;
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const float sum = sum_[i] + rest_[i];
      const auto* const wide = reinterpret_cast<const std::byte*>(&sum);
      std::array<std::byte, 2> narrow = {};
      float sent = 0.0F;
      kernels::convert(narrow.data(), rounded_, wide, DataType::kFloat32, 1);
      kernels::convert(reinterpret_cast<std::byte*>(&sent), DataType::kFloat32, narrow.data(),
                       rounded_, 1);
      rest_[i] = sum - sent;
    }
  }
  bool is_of_its_round() const {
    const std::uint64_t at = chunk().arena_offset;
    const auto& rest = copy_->round == rounds_ ? rest_ : rest_before_;
    return has_bits_of(copy_->parameters_at(at), parameters(copy_->round)) &&
           (!keeps_rest() || has_bits_of(copy_->state_at(at), rest));
  }

  const DataType type_;     // of replies
  const DataType rounded_;  // of sums
  RacksRig rig_;
  std::uint32_t slot_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<float> sum_;          // of the rack's workers
  std::vector<float> rest_before_;  // what rounding had left of it a round ago
  std::vector<float> rest_;         // and now
  std::shared_ptr<server::JobCopy> copy_;
};

TEST_CASE("a copy that begins at any byte of a reply ends, and is of one round", "[racks]") {
  const auto wire_type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  const auto rack_wire_type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  INFO(name_of(wire_type) << ", between racks " << name_of(rack_wire_type));
  RepliedChunk chunk(wire_type, rack_wire_type);
  for (std::size_t bytes = 0; bytes < chunk.reply_bytes(); ++bytes) {
    INFO("since byte " << bytes);
    const std::uint64_t round = chunk.round_with_copy(bytes);
    // From the header on the reply overwrites the chunk.
    const bool has_begun = bytes >= sizeof(transport::FrameHeader);
    REQUIRE(round == chunk.rounds() - (has_begun ? 0 : 1));
  }
}

TEST_CASE("what rounding leaves of sums is in copies, and a restored job goes on", "[racks]") {
  const auto shape = GENERATE(RackShape::kSpread, RackShape::kChain);
  RacksOptions options{.workers = {1, 2, 1},
                       .shape = shape,
                       .rule = RuleKind::kMomentum,
                       .rack_wire_type = GENERATE(DataType::kFloat16, DataType::kBfloat16)};
  const auto play = [](RacksRig& rig, unsigned round) {
    std::mt19937 random(100 + round);
    rig.randomise(random);
    rig.round();
  };
  RacksRig straight(options);
  std::vector<std::shared_ptr<server::JobCopy>> copies;
  for (unsigned round = 0; round < 4; ++round) play(straight, round);
  for (std::uint32_t rack = 0; rack < straight.racks(); ++rack) {
    auto& copying = straight.job(rack).shard.updates.copying;
    copies.push_back(
        std::move(*server::JobCopy::create(*straight.plan, 0, state_arrays(options.rule) + 1)));
    copies.back()->round = 4;
    REQUIRE(copying.begin(copies.back()));
    REQUIRE(copying.copy_some(1000) == 0);
    copying.end();
  }
  options.initial.assign(copies.begin(), copies.end());
  RacksRig restored(options);
  play(restored, 0);
  for (unsigned round = 4; round < 8; ++round) {
    restored.for_each([&](std::uint32_t rack, const RacksWorker& worker) {
      REQUIRE(worker.parameters == straight.worker(rack, 0).parameters);
    });
    play(restored, round);
    play(straight, round);
  }
}

}  // namespace
}  // namespace phub
