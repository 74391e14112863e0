// Copies of one rack's job at random moments, as snapshots make them, one after another. Each ends
// when its round is over, and has the parameters that workers were replied with in that round.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "server/connections/job_on_core.h"
#include "tests/simulation/racks_rounds.h"
#include "tests/simulation/random.h"

namespace phub::simulation {

class RackCopies {
 public:
  // Nothing is copied of a rule without parameters. `job` outlives this.
  RackCopies(const server::JobLayout& layout, server::JobOnCore& job)
      : shard_(job.shard), plan_(*layout.plan), type_(layout.wire_type) {
    if (!has_parameters(layout.rule)) return;
    copy_ = std::move(*server::JobCopy::create(plan_, 0, server::state_arrays(layout)));
  }

  // Empty, or what is wrong.
  std::string step(Random& random, RacksRounds& rounds) {
    if (!copy_ || shard_.stopped()) return {};
    if (is_under_way_) {
      left_ = shard_.updates.copying.copy_some(random.between(1, 4));
      return left_ == 0 ? finish(rounds) : std::string();
    }
    if (!random.one_in(3)) return {};
    copy_->round = std::max<std::uint64_t>(1, shard_.rounds_to_copy(1)) + random.below(2);
    is_under_way_ = shard_.updates.copying.begin(copy_);
    return is_under_way_ ? std::string() : "no copy begins at round " + round();
  }

  // When `last` is the job's last round, and over.
  std::string end(RacksRounds& rounds, std::uint32_t last) {
    if (!is_under_way_ || shard_.stopped()) return {};
    left_ = shard_.updates.copying.copy_some(shard_.chunks());
    if (left_ == 0) return finish(rounds);
    if (copy_->round > last) return {};
    return "a copy of round " + round() + " does not end: " + std::to_string(left_) + " chunks";
  }

 private:
  std::string round() const { return std::to_string(copy_->round); }

  std::string finish(RacksRounds& rounds) {
    shard_.updates.copying.end();
    is_under_way_ = false;
    for (std::uint32_t slot = 0; slot < shard_.chunks(); ++slot) {
      const Chunk& chunk = plan_.chunks[slot];
      const float* const values = copy_->parameters_at(chunk.arena_offset);
      std::vector<std::byte> wire(chunk.elements * size_of(type_));
      kernels::reference::convert(wire.data(), type_, reinterpret_cast<const std::byte*>(values),
                                  DataType::kFloat32, chunk.elements);
      const auto of_round = static_cast<std::uint32_t>(copy_->round - 1);
      if (wire == rounds.reply(slot, of_round).payload) continue;
      return "chunk " + std::to_string(slot) + " of the copy of round " + round() +
             " has other bits";
    }
    return {};
  }

  server::Shard& shard_;
  const Plan& plan_;
  const DataType type_;
  std::shared_ptr<server::JobCopy> copy_;  // null: nothing is copied
  bool is_under_way_ = false;
  std::uint32_t left_ = 0;  // chunks
};

}  // namespace phub::simulation
