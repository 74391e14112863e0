// A shard whose pushes are watched, beside one whose are not, with bad elements in some of the
// pushes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/server/sparse_rig.h"

namespace phub::testing {

using server::JobLayout;
using server::NotFinite;
using server::WorkerValues;

inline constexpr float kNotNumbers[] = {std::numeric_limits<float>::quiet_NaN(),
                                        std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity()};

// A push gets one bad element: this one of the chunk.
struct Injected {
  std::uint32_t worker;
  std::uint32_t slot;
  std::uint32_t element;
  float value;
};

inline bool is_same_kind(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b; }

inline JobLayout watched_layout(RuleKind rule, std::uint32_t workers, DataType type,
                                WatchValues watch = WatchValues::kName) {
  JobLayout layout = deferred_layout(rule, workers, type);
  layout.watch_values = watch;
  return layout;
}

// Rounds of a watched shard beside one that is not, with bad elements in some of the pushes.
class WatchRig {
 public:
  WatchRig(const JobLayout& layout, std::uint32_t seed)
      : rig_(layout), plain_(unwatched(layout)), random_(seed), wanted_(layout.workers) {
    if (has_parameters(layout.rule)) round(0, {});
  }

  // Of different pushes. True: it found just these.
  bool round(std::uint32_t number, const std::vector<Injected>& injected) {
    const auto value = [&](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      for (const Injected& bad : injected) {
        const auto [its_key, its_element] = place_of(bad);
        if (bad.worker == worker && its_key == key && its_element == i) return bad.value;
      }
      return noise(number)(worker, key, i);
    };
    std::mt19937 same = random_;
    rig_.push_all(random_, value);
    rig_.update_all_due();
    plain_.push_all(same, value);
    plain_.update_all_due();
    for (const Injected& bad : injected) want(bad, number);
    return agrees();
  }

  Injected any() {
    const std::uint32_t slot = static_cast<std::uint32_t>(random_() % rig_.shard->chunks());
    const Plan& plan = *rig_.layout.plan;
    return {.worker = static_cast<std::uint32_t>(random_() % rig_.layout.workers),
            .slot = slot,
            .element = static_cast<std::uint32_t>(
                random_() % plan.chunks[plan.core_chunks[0][0][slot]].elements),
            .value = kNotNumbers[random_() % std::size(kNotNumbers)]};
  }
  // So many, of different pushes.
  std::vector<Injected> some(std::size_t count) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Injected> by_push;
    for (std::size_t i = 0; i < count; ++i) {
      const Injected bad = any();
      by_push[{bad.worker, bad.slot}] = bad;
    }
    std::vector<Injected> all;
    for (const auto& [push, bad] : by_push) all.push_back(bad);
    return all;
  }

  // Parameters are numbers again, so that rounds are as different as at first.
  bool has_the_bits_of_plain() const {
    for (std::uint32_t slot = 0; slot < rig_.shard->chunks(); ++slot) {
      const auto own = rig_.reply(slot);
      const auto plain = plain_.reply(slot);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const bool is_same = own[i] == plain[i] || (std::isnan(own[i]) && std::isnan(plain[i]));
        if (!is_same) return false;
      }
    }
    return true;
  }

 private:
  static JobLayout unwatched(JobLayout layout) {
    layout.watch_values = WatchValues::kOff;
    return layout;
  }

  std::pair<std::uint32_t, std::uint64_t> place_of(const Injected& bad) const {
    const Plan& plan = *rig_.layout.plan;
    const Chunk& chunk = plan.chunks[plan.core_chunks[0][0][bad.slot]];
    for (std::uint32_t s = chunk.segment_count; s-- > 0;) {
      const Segment& segment = plan.segments[chunk.first_segment + s];
      if (bad.element < segment.chunk_offset) continue;
      return {segment.key, segment.key_offset + bad.element - segment.chunk_offset};
    }
    return {0, 0};
  }

  // What it is to be told. Of several pushes of a worker in a round any may be the last.
  void want(const Injected& bad, std::uint32_t number) {
    const auto [key, element] = place_of(bad);
    Wanted& wanted = wanted_[bad.worker];
    ++wanted.pushes;
    if (wanted.round != number) wanted.last.clear();
    wanted.round = number;
    wanted.last.push_back({.round = number, .key = key, .element = element, .value = bad.value});
  }

  bool agrees() const {
    const std::vector<WorkerValues>& found = rig_.shard->reader.watch()->workers();
    for (std::uint32_t w = 0; w < rig_.layout.workers; ++w) {
      if (found[w].pushes != wanted_[w].pushes) return false;
      if (found[w].pushes == 0) continue;
      const NotFinite& last = found[w].last;
      const auto is_last = [&](const NotFinite& one) {
        return one.round == last.round && one.key == last.key && one.element == last.element &&
               is_same_kind(one.value, last.value);
      };
      if (std::none_of(wanted_[w].last.begin(), wanted_[w].last.end(), is_last)) return false;
    }
    return true;
  }

  struct Wanted {
    std::uint64_t pushes = 0;
    std::uint32_t round = 0;
    std::vector<NotFinite> last;  // of that round
  };

  ShardRig rig_;
  ShardRig plain_;
  std::mt19937 random_;
  std::vector<Wanted> wanted_;
};

}  // namespace phub::testing
