// What the replies of each round of a job must be: the scalar specification, on pushes that have
// one value in all elements of a chunk.
//
// Rules that look at single elements have one for each chunk here, so that large chunks cost
// nothing; lars has norms of keys, and all elements.
#pragma once

#include <vector>

#include "tests/support/rule_specification.h"

namespace phub::simulation {

struct RoundVotes {
  float loss_scale = 1.0F;
  bool overflow = false;  // of any worker: nothing is updated
};

class ExpectedRounds {
 public:
  // Of the round's pushes.
  using Value = std::function<float(std::uint32_t worker, std::uint32_t slot, std::uint32_t round)>;
  using Votes = std::function<RoundVotes(std::uint32_t round)>;

  // REQUIRES: one server, one core; keys of whole chunks.
  ExpectedRounds(const server::JobLayout& layout, Value value, Votes votes)
      : value_(std::move(value)),
        votes_(std::move(votes)),
        layout_(model_of(layout)),
        specification_(layout_) {}

  float at(std::uint32_t slot, std::uint32_t round) {
    while (rounds_.size() <= round) compute(static_cast<std::uint32_t>(rounds_.size()));
    return rounds_[round][slot];
  }

 private:
  static server::JobLayout model_of(server::JobLayout layout) {
    if (needs_whole_keys(layout.rule)) return layout;
    PlanInput input;
    input.key_elements.assign(layout.plan->chunks.size(), 1);
    input.cores_per_server = {1};
    layout.weight_decay.assign(input.key_elements.size(), layout.weight_decay.front());
    layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    return layout;
  }

  void compute(std::uint32_t round) {
    const Plan& plan = *layout_.plan;
    const bool has_slices = needs_whole_keys(layout_.rule);
    const RoundVotes votes = votes_(round);
    const auto value = [&](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      const auto chunk = static_cast<std::uint32_t>(i / plan.max_chunk_elements);
      return value_(worker, has_slices ? plan.first_chunk[key] + chunk : key, round);
    };
    if (round == 0 && has_parameters(layout_.rule)) {
      specification_.initialise(value);
    } else if (!votes.overflow) {
      specification_.round(layout_.hyper, votes.loss_scale, value);
    }
    std::vector<float>& values = rounds_.emplace_back();
    for (const Segment& segment : plan.segments) {
      values.push_back(specification_.parameter(segment.key, segment.key_offset));
    }
  }

  Value value_;
  Votes votes_;
  server::JobLayout layout_;
  testing::RuleSpecification specification_;
  std::vector<std::vector<float>> rounds_;  // by round and slot
};

}  // namespace phub::simulation
