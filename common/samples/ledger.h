// What the rounds of a job use of their samples, as a line.
//
// A value. All workers of a rack say the same one, and a server that has it knows the place of each
// round.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace phub {

struct SampleLedger {
  std::uint64_t samples = 0;  // of the set (SampleStream); 0: nothing is known
  std::uint64_t seed = 0;
  std::uint64_t round = 0;      // rounds of gradients that are over when
  std::uint64_t used = 0;       // the stream is used up to here
  std::uint64_t per_round = 0;  // samples that each later round uses; 0: that is not known

  bool operator==(const SampleLedger&) const = default;
  bool is_known() const { return samples > 0; }
  // Whether it says what is used when `rounds` rounds are over.
  bool knows(std::uint64_t rounds) const {
    return is_known() && (rounds == round || (rounds > round && per_round > 0));
  }
  // What that is. REQUIRES: knows(rounds).
  std::uint64_t used_after(std::uint64_t rounds) const {
    return used + (rounds - round) * per_round;
  }
};

// kInvalidArgument: the numbers are none of a training.
inline Status check(const SampleLedger& ledger) {
  constexpr std::uint64_t kSetMax = 0xFFFF'FFFF, kPlaceMax = std::uint64_t{1} << 48;
  const auto refused = [](const char* what, std::uint64_t number, std::uint64_t most) {
    return Status(Code::kInvalidArgument, std::string(what) + ": " + std::to_string(number) +
                                              ", allowed are at most " + std::to_string(most));
  };
  if (ledger.samples == 0) return {Code::kInvalidArgument, "samples: a set of 0 has none to use"};
  if (ledger.samples > kSetMax) return refused("samples", ledger.samples, kSetMax);
  if (ledger.round > kPlaceMax) return refused("samples: round", ledger.round, kPlaceMax);
  if (ledger.used > kPlaceMax) return refused("samples: used", ledger.used, kPlaceMax);
  if (ledger.per_round > kPlaceMax)
    return refused("samples: per_round", ledger.per_round, kPlaceMax);
  return {};
}

}  // namespace phub
