// How the gradients of a job travel, from workers and from rack to rack.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

// What a worker may push of a chunk: a property of the job, so that a server takes from nobody what
// the job does not have.
enum class Encoding : std::uint8_t {
  kDense,   // all of its elements
  kSparse,  // that, or some of them with their places: common/protocol/sparse_push.h
  kInt8,    // that, or all in 8 bits with a scale for each block: kernels/quantise.h
  kInt4,    // the same in 4
};
inline constexpr Words<Encoding, 4> kEncodingWords = {{"dense", "sparse", "int8", "int4"}};
constexpr std::string_view name_of(Encoding encoding) { return kEncodingWords.of(encoding); }

// How a worker chooses what it pushes of a gradient: kernels/sparse.h.
enum class Selector : std::uint8_t {
  kExact,       // the largest k, by a partial sort of a copy
  kHistogram,   // the largest k, by counts of the magnitudes' digits: from the first on
  kThresholds,  // MSTopK of Shi et al. (arXiv 2010.10458): nearly the largest k, by comparisons
};
inline constexpr Words<Selector, 3> kSelectorWords = {{"exact", "histogram", "mstopk"}};
constexpr std::string_view name_of(Selector selector) { return kSelectorWords.of(selector); }

// What of a rack's sums goes to other racks.
struct RackCompress {
  float density = 0.0F;              // share of a chunk's elements that goes up; 0: all of it
  std::uint64_t dense_below = 4096;  // smaller keys go whole, and so do those that share a chunk
  bool error_feedback = true;        // what does not go up is added to the next round's sum
  Selector selector = Selector::kHistogram;

  bool is_on() const { return density > 0.0F; }
  bool operator==(const RackCompress&) const = default;
};

inline constexpr std::uint32_t kRackWaitMs = 250;

// DiLoCo of Douillard et al. (arXiv 2311.08105), with racks as learners: after `steps` rounds a
// rack pushes its difference from the parameters that all racks had together last. Their mean is
// the gradient of a step of Nesterov's momentum on these parameters, with which all racks go on.
struct RackLocal {
  std::uint32_t steps = 0;     // 0 or 1: racks exchange each round's sums
  float learning_rate = 0.7F;  // of the outer step
  float momentum = 0.5F;       // the same; DiLoCo's 0.9 diverges with tens of steps
  std::uint32_t quorum = 0;    // racks whose differences make an outer step; 0: all wait for all
  std::uint32_t wait_ms = kRackWaitMs;  // with a quorum: how long racks wait for an outer step

  // Racks go on by themselves when others are late.
  bool goes_on() const { return quorum > 0; }
  bool is_on() const { return steps > 1; }
  bool operator==(const RackLocal&) const = default;
};

}  // namespace phub
