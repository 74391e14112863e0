// What a core keeps of one chunk of a job. Data of a Shard; its core's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

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

struct ShardChunk {
  ChunkPlace place;
  ChunkSum sum;
  Hyper hyper;                 // of this round
  std::uint64_t rounds = 0;    // that are behind it
  std::uint64_t left_out = 0;  // of them: no chunk was updated
  bool initialised = false;    // the first round of a rule with parameters is over
  bool copied = false;         // into the copy that is under way
  bool skipped = false;        // the last update was left out, or a part of it
  bool is_ahead = false;       // parameters or state are of the next round, whole or in part
  bool is_above = false;       // its sum was pushed to the rack above, whose reply is due
  std::uint32_t tree = 0;      // over racks
  std::uint32_t leader = 0;    // seat of the member whose hyper-parameters and first push hold
  // A rack keeps back parts of its sums in two arrays. `rest_side` is the one of the rounds behind
  // the chunk. `has_next_rest`: the round under way has written the other one, which holds when
  // that round is over.
  std::uint32_t rest_side = 0;
  bool has_next_rest = false;
};

}  // namespace phub::server
