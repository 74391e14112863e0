// Rounds that all racks of a job make together: sums go up each chunk's tree, results come down.
//
// A chunk's sum here has two levels. RackSums adds up this rack's workers. ChunkUpdates adds that
// sum to those of the racks below. The total goes to the rack above, or ends the round at the root.
// Where racks make rounds by themselves (outer_steps.h), only initial values and all racks' sums
// pass here. Data of a Shard; its core's thread only. Nothing allocates.
#pragma once

#include <span>
#include <utility>

#include "server/chunks/chunk_updates.h"
#include "server/chunks/pushes/worker_reader.h"
#include "server/chunks/racks/outer_steps.h"
#include "server/chunks/racks/rack_exchange.h"
#include "server/chunks/racks/rack_sums.h"

namespace phub::server {

class RackRounds {
 public:
  struct Parts {  // of the shard; they outlive this
    ChunkUpdates& updates;
    WorkerReader& reader;
    RackSums& sums;
    RackExchange& exchange;
    BufferPool& staging;
    bool makes_own = false;     // racks make rounds by themselves
    OpenSteps* open = nullptr;  // null: or they wait for each other
    bool is_restored = false;   // the parameters were there before the first round
  };
  // `rule`: the job's.
  RackRounds(const Parts& parts, RuleKind rule)
      : parts_(parts), skips_keys_(needs_whole_keys(rule)) {}

  // Adds the push of a worker of this rack, or of a rack below.
  PushResult add(Push push, ShardChunk& chunk);
  // Continues the first of the sums that waited for the loss scale. Returns its chunk and the
  // result. REQUIRES: sums.has_held().
  std::pair<std::uint32_t, PushResult> take_held();

  // The rack above may reply to the chunk's sum from now on.
  void begin_above(std::uint32_t slot);
  // Returns the place for a reply of the rack that is member `seat`. Null: no reply of `bytes`
  // bytes is due from there. A reply that is a sum gets a staging buffer. REQUIRES: bytes > 0.
  std::byte* place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes);
  // Whether a reply of `bytes` bytes is due from the rack that is member `seat`.
  bool is_due(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes);
  // Takes the reply `data`, which may be at place_of_reply already. Returns kCompleted, kDeferred,
  // kUpdatesDue, kExchanging, or what is wrong.
  PushResult take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped);
  // What the member `seat`, a rack below, is replied to with; empty: new parameters.
  std::span<const std::byte> reply_below(std::uint32_t seat, std::uint32_t slot) const;
  // Racks that do not wait for each other: the time of the chunk that waits for longest is over.
  // Returns the chunk. REQUIRES: open steps wait for one.
  std::uint32_t end_wait();
  // Removes a rack. True: the job goes on without it, and somebody may wait for an outer step of
  // each chunk.
  bool lose(std::uint32_t rack);

 private:
  ShardChunk& chunk(std::uint32_t slot) { return parts_.updates.chunks[slot]; }
  bool has(std::uint32_t slot) const { return slot < parts_.updates.chunks.size(); }
  std::uint32_t bytes_of(std::uint32_t slot) {
    return parts_.updates.parameters.bytes(chunk(slot).place);
  }
  PushResult add_of_worker(const Push& push, const Contribution& own, ShardChunk& chunk);
  PushResult add_own_sum(std::uint32_t slot);
  bool add_sum(std::uint32_t slot, std::uint32_t position, const Contribution& sum);
  PushResult finish(std::uint32_t slot);
  PushResult take_parameters(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped);
  PushResult take_sum(std::uint32_t slot, std::span<const std::byte> reply);
  PushResult take_sum_in_place(std::uint32_t slot, std::span<const std::byte> reply);

  const Parts parts_;
  const bool skips_keys_;  // the rule may leave out a part of a chunk
};

}  // namespace phub::server
