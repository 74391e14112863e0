// What the replies of each round of a job of several racks must be, bit for bit: the documented
// fold (of a rack's workers in their order, then of racks in theirs, up the chunk's tree), and the
// scalar specification of the rule on it.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "kernels/reference.h"
#include "tests/simulation/expected_rounds.h"
#include "tests/support/rule_specification.h"

namespace phub::simulation {

// Of a round.
struct RoundWords {
  Hyper hyper;
  RoundVotes votes;  // the loss scale also of a static one
};

class RacksRounds {
 public:
  struct Source {
    std::uint32_t rack = 0;
    std::uint32_t worker = 0;
  };
  using Value =
      std::function<float(const Source&, std::uint32_t key, std::uint64_t i, std::uint32_t round)>;
  using Words = std::function<RoundWords(std::uint32_t round)>;

  // `layout`: of any of the racks.
  RacksRounds(const server::JobLayout& layout, std::vector<std::uint32_t> workers,
              std::vector<RackTree> trees, Value value, Words words)
      : layout_(layout),
        plan_(*layout.plan),
        workers_(std::move(workers)),
        trees_(std::move(trees)),
        value_(std::move(value)),
        words_(std::move(words)),
        specification_(model_of(layout)),
        sum_(plan_.arena_elements) {}

  // What a worker pushes.
  std::vector<std::byte> push(const Source& from, std::uint32_t slot, std::uint32_t round) const {
    return to_wire(values(from, plan_.chunks[slot], round));
  }

  struct Reply {
    std::vector<std::byte> payload;
    bool skipped = false;
  };
  const Reply& reply(std::uint32_t slot, std::uint32_t round) {
    while (rounds_.size() <= round) compute(static_cast<std::uint32_t>(rounds_.size()));
    return rounds_[round][slot];
  }

 private:
  // One worker's, whose gradients are the fold.
  static server::JobLayout model_of(server::JobLayout layout) {
    layout.workers = 1;
    layout.wire_type = DataType::kFloat32;
    return layout;
  }

  std::vector<float> values(const Source& from, const Chunk& chunk, std::uint32_t round) const {
    std::vector<float> values(chunk.elements);
    for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
      const Segment& segment = plan_.segments[chunk.first_segment + s];
      for (std::uint32_t i = 0; i < segment.elements; ++i) {
        values[segment.chunk_offset + i] = value_(from, segment.key, segment.key_offset + i, round);
      }
    }
    return values;
  }
  std::vector<std::byte> to_wire(const std::vector<float>& values) const {
    return narrowed(values, layout_.wire_type);
  }
  static std::vector<std::byte> narrowed(const std::vector<float>& values, DataType type) {
    std::vector<std::byte> wire(values.size() * size_of(type));
    kernels::reference::convert(wire.data(), type,
                                reinterpret_cast<const std::byte*>(values.data()),
                                DataType::kFloat32, values.size());
    return wire;
  }
  // What arrives of them.
  static std::vector<float> crossed(const std::vector<float>& values, DataType type) {
    const std::vector<std::byte> wire = narrowed(values, type);
    std::vector<float> wide(values.size());
    kernels::reference::convert(reinterpret_cast<std::byte*>(wide.data()), DataType::kFloat32,
                                wire.data(), type, values.size());
    return wide;
  }
  std::vector<float> pushed(const Source& from, const Chunk& chunk, std::uint32_t round) const {
    return crossed(values(from, chunk, round), layout_.wire_type);
  }

  static void add(std::vector<float>& sum, std::vector<float> other) {
    if (sum.empty()) return sum.swap(other);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }
  std::vector<float> fold(const Chunk& chunk, std::uint32_t rack, std::uint32_t round) {
    std::vector<float> sum;
    for (std::uint32_t other = 0; other < workers_.size(); ++other) {
      if (other == rack) {
        std::vector<float> own;
        for (std::uint32_t w = 0; w < workers_[rack]; ++w)
          add(own, pushed({rack, w}, chunk, round));
        add(sum, std::move(own));
      } else if (trees_[chunk.tree].parent[other] == rack) {
        add(sum, gone_up(chunk, other, fold(chunk, other, round)));
      }
    }
    return sum;
  }
  // A rack's sum where it crosses in 16 bits: with what rounding left over in the rounds before.
  std::vector<float> gone_up(const Chunk& chunk, std::uint32_t rack, std::vector<float> sum) {
    if (layout_.rack_wire_type == DataType::kFloat32) return sum;
    std::vector<float>& rest = rests_[{rack, chunk.arena_offset}];
    rest.resize(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    std::vector<float> arrived = crossed(sum, layout_.rack_wire_type);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float left = sum[i] - arrived[i];
      rest[i] = std::isfinite(left) ? left : 0.0F;
    }
    return arrived;
  }
  std::uint32_t root(const Chunk& chunk) const {
    std::uint32_t rack = 0;
    if (trees_.empty()) return rack;
    while (trees_[chunk.tree].parent[rack] != RackTree::kNone) {
      rack = trees_[chunk.tree].parent[rack];
    }
    return rack;
  }

  void compute(std::uint32_t round) {
    const bool is_first = round == 0 && has_parameters(layout_.rule);
    const auto rests_before = rests_;
    for (const Chunk& chunk : plan_.chunks) {
      const std::vector<float> values =
          is_first ? pushed({}, chunk, round) : fold(chunk, root(chunk), round);
      std::copy(values.begin(), values.end(),
                sum_.begin() + static_cast<std::ptrdiff_t>(chunk.arena_offset));
    }
    const auto value = [&](std::uint32_t, std::uint32_t key, std::uint64_t i) {
      return sum_[plan_.key_offset[key] + i];
    };
    const RoundWords words = words_(round);
    const bool is_against = !is_first && words.votes.overflow;
    if (is_first) {
      specification_.initialise(value);
    } else if (!is_against) {
      specification_.round(words.hyper, words.votes.loss_scale, value);
    }
    std::vector<Reply>& replies = rounds_.emplace_back();
    for (std::uint32_t id = 0; id < plan_.chunks.size(); ++id) {
      const Chunk& chunk = plan_.chunks[id];
      std::vector<float> values(chunk.elements);
      for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
        const Segment& segment = plan_.segments[chunk.first_segment + s];
        for (std::uint32_t i = 0; i < segment.elements; ++i) {
          values[segment.chunk_offset + i] =
              specification_.parameter(segment.key, segment.key_offset + i);
        }
      }
      const bool is_skipped = !is_first && (is_against || specification_.skipped(id));
      if (is_skipped && !needs_whole_keys(layout_.rule)) restore_rests(chunk, rests_before);
      replies.push_back({to_wire(values), is_skipped});
    }
  }

  // A round that is left out leaves the residuals of each rack.
  using Rests = std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<float>>;
  void restore_rests(const Chunk& chunk, const Rests& before) {
    for (std::uint32_t rack = 0; rack < workers_.size(); ++rack) {
      const auto found = before.find({rack, chunk.arena_offset});
      rests_[{rack, chunk.arena_offset}] =
          found == before.end() ? std::vector<float>(chunk.elements) : found->second;
    }
  }

  server::JobLayout layout_;
  const Plan& plan_;
  std::vector<std::uint32_t> workers_;  // by rack
  std::vector<RackTree> trees_;
  Value value_;
  Words words_;
  testing::RuleSpecification specification_;
  std::vector<float> sum_;                  // in the plan's arena
  Rests rests_;                             // by rack and offset
  std::vector<std::vector<Reply>> rounds_;  // by round and slot
};

}  // namespace phub::simulation
