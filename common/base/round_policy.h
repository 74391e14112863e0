// When a chunk's round is complete, what becomes of pushes that come later, and how far workers may
// run ahead of each other.
//
// The named methods are settings of these: bulk synchronous (no quorum), backup workers (quorum
// N - b, late pushes dropped), asynchronous (quorum 1, late pushes added), stale synchronous
// parallel (the same with a staleness), round robin (quorum 1, late pushes added, turns), Hogwild
// (the same, hogwild).
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

// Of a push that was computed from parameters that a round has replaced since.
enum class LatePushes : std::uint8_t {
  kDrop,  // it is counted, and replied to at once with the current parameters
  kAdd,   // it is one of the round that is under way; so nobody waits for a round's end
};

// What a push is multiplied by before it is added.
enum class PushWeight : std::uint8_t {
  kOne,
  kStaleness,  // 1 / (1 + s), s: rounds since the parameters that it was computed from
  kSamples,    // what its worker says (Hyper); a mean is then over the weights of those who came
};

inline constexpr std::uint32_t kAnyStaleness = UINT32_MAX;
inline constexpr std::uint32_t kGraceMsMax = 600'000;
inline constexpr std::uint32_t kPatienceMs = 10'000;

struct RoundPolicy {
  std::uint32_t quorum = 0;    // pushes that complete a round; 0: every worker's
  std::uint32_t grace_ms = 0;  // of kDrop: after these, how long more are waited for
  // Of kDrop: so long after its first push a round goes on without its quorum. Workers of whom some
  // were late for some chunks, and others for others, may wait for each other. It is to be longer
  // than workers are apart, or pushes are dropped for nothing, and shorter than a worker's
  // deadline.
  std::uint32_t patience_ms = kPatienceMs;
  // A worker's reply is withheld while it has pushed a chunk so many times more than the slowest.
  std::uint32_t staleness = kAnyStaleness;
  LatePushes late = LatePushes::kDrop;
  PushWeight weight = PushWeight::kOne;
  // Of a quorum of one with kAdd: a worker is replied to when the one before it, by index, has
  // pushed; so of a chunk one worker at a time has parameters that it computes with.
  bool turns = false;
  // Of a quorum of one with kAdd: workers are on the server's host, and change the parameters that
  // it shares with them themselves, without locks (kernels/hogwild.h); the server counts.
  bool hogwild = false;

  bool waits_for_all() const { return quorum == 0; }
  bool operator==(const RoundPolicy&) const = default;
};

// That a round may have.
inline std::uint32_t most_pushes(const RoundPolicy& rounds, std::uint32_t workers) {
  return rounds.waits_for_all() || rounds.grace_ms > 0 ? workers : rounds.quorum;
}

inline constexpr Words<LatePushes, 2> kLatePushesWords = {{"drop", "add"}};
inline constexpr Words<PushWeight, 3> kPushWeightWords = {{"one", "staleness", "samples"}};
constexpr std::string_view name_of(LatePushes late) { return kLatePushesWords.of(late); }
constexpr std::string_view name_of(PushWeight weight) { return kPushWeightWords.of(weight); }

}  // namespace phub
