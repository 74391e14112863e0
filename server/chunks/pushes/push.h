// A push of a chunk, what a reader makes of it, and what became of it.
//
// Values of a core's thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/rule.h"
#include "common/protocol/sparse_push.h"

namespace phub::server {

struct Push {
  std::uint32_t worker;  // seat of the member that pushed it
  std::uint32_t slot;
  std::byte* data;  // if staged, a buffer of the job's staging, which the shard gives back
  std::uint32_t bytes;
  bool staged;
  const Hyper* hyper;  // what its worker last said, else the job's (rounds/round_hypers.h)
};

// A push that can be added to a sum.
struct Contribution {
  std::byte* data = nullptr;
  bool staged = false;  // in a buffer of the staging, which is given back
  bool packed = false;  // as the job's encoding; if sparse, staged and without fault
};

enum class PushResult {
  kAccepted,
  kCompleted,   // the chunk's new parameters are ready
  kGathered,    // the last push of this rack's workers; other racks' are due
  kGoesUp,      // the last push here: the sum is to be pushed to the rack above
  kDeferred,    // the chunk's last push: its sum is there, its update is not due
  kUpdatesDue,  // the same, and now updates are due
  kExchanging,  // an exchange of racks goes on: OuterRounds::outcome says what follows
  kForbidden,   // it has a value that is not finite, and the job is to end
  // ---- Of a job with a quorum: its rounds say who is replied to, now as after kCompleted ----
  kTaken,    // it is in a round that goes on
  kOpened,   // the same, and the first of it: somebody waits for its quorum
  kQuorum,   // the same, and now the round is in grace
  kDropped,  // it was late
  // ---- What is wrong with a push that is not taken ----
  kUnknownChunk,
  kBadLength,
  kDuplicate,
  kBadCount,  // of a sparse push, as are the next two: see common/protocol/sparse_push.h
  kBadIndex,
  kBadOrder,
  kBadHyper,  // a reply of the rack above has hyper-parameters that make no sense
  kTooEarly,  // a job with a quorum: the worker waits for its reply
  kCorrupt,   // a push of the chunk differs from its checksum: nothing is added, the job is to end
  kStopped
};

// The result of a sparse push in which `fault` was found.
inline PushResult result_of(wire::SparseFault fault) {
  switch (fault) {
    case wire::SparseFault::kNone:
      return PushResult::kAccepted;
    case wire::SparseFault::kCount:
      return PushResult::kBadCount;
    case wire::SparseFault::kRange:
      return PushResult::kBadIndex;
    case wire::SparseFault::kOrder:
      return PushResult::kBadOrder;
  }
  return PushResult::kBadCount;
}

}  // namespace phub::server
