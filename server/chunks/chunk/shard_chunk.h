// What a core keeps of one chunk of a job. Data of a Shard; its core's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/dtype.h"
#include "common/base/rule.h"

namespace phub::server {

struct ChunkPlace {
  std::uint64_t arena_offset = 0;  // the plan's
  std::uint64_t home = 0;          // in this server's memory
  std::uint32_t elements = 0;
  std::uint32_t first_run = 0;  // see ChunkParameters
  std::uint32_t run_count = 0;
};

// Pushes of the round that is under way.
struct ChunkSum {
  std::uint32_t members = 1;  // that push in a round
  std::byte* data = nullptr;  // a staging buffer with what is folded
  DataType type = DataType::kFloat32;
  std::uint32_t pushes = 0;
  std::uint32_t folded = 0;  // of them, in their order
  float weight = 0.0F;       // of a job with a quorum: of all of them

  void clear() { *this = {.members = members}; }
};

// Where a chunk is in its round.
enum class ChunkState : std::uint8_t {
  kGathering,  // pushes come; the parameters are those of the rounds behind it
  kSummed,     // the sum waits for what its update needs (deferred_updates.h)
  kAbove,      // the sum was pushed to the rack above, whose reply is due
  kLanding,    // the same, and a part of the reply may be in the parameters
  kUpdating,   // parameters or state are in part those of the next round
};

// The table of transitions: a bit for each state that may follow.
constexpr bool may_follow(ChunkState from, ChunkState to) {
  const auto bit = [](ChunkState state) { return 1U << static_cast<unsigned>(state); };
  constexpr unsigned kFollowing[] = {
      /*kGathering*/ 0b11111,  // each: an update at once begins and ends within a push
      /*kSummed   */ 0b10001,  // kUpdating (rule lamb: directions first), kGathering
      /*kAbove    */ 0b11011,  // kLanding, or a combined sum: kSummed, kUpdating, kGathering
      /*kLanding  */ 0b01001,  // kLanding again, kGathering
      /*kUpdating */ 0b11001,  // kUpdating again, kLanding (differences of racks), kGathering
  };
  return (kFollowing[static_cast<unsigned>(from)] & bit(to)) != 0;
}

struct ShardChunk {
  ChunkPlace place;
  ChunkSum sum;
  Hyper hyper;                 // of this round
  std::uint64_t rounds = 0;    // that are behind it
  std::uint64_t left_out = 0;  // of them: no chunk was updated
  ChunkState state = ChunkState::kGathering;
  bool initialised = false;  // its parameters are there, or its rule has none
  bool is_root = true;       // sums of racks end here
  bool votes_here = true;    // this server counts the votes on its rounds
  bool copied = false;       // into the copy that is under way
  bool skipped = false;      // the last update was left out, or a part of it
  bool is_for_racks = true;  // racks below have pushed for its last round, and are replied to
  std::uint32_t tree = 0;    // over racks
  std::uint32_t leader = 0;  // seat of the member whose hyper-parameters and first push hold
  // The residual of its rack (rack_residuals.h). `rest_side` is the array of the rounds behind the
  // chunk. `has_next_rest`: the round under way has written the other array.
  std::uint32_t rest_side = 0;
  bool has_next_rest = false;

  void enter(ChunkState next) {
    PHUB_DCHECK(may_follow(state, next), "a state that follows");
    state = next;
  }
  // Parameters or state are of the next round, whole or in part.
  bool is_ahead() const { return state == ChunkState::kLanding || state == ChunkState::kUpdating; }
  // Its sum was pushed to the rack above, whose reply is due.
  bool is_above() const { return state == ChunkState::kAbove || state == ChunkState::kLanding; }
};

}  // namespace phub::server
