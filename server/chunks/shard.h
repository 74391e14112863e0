// One job's chunks on one core: aggregation, then the update rule, chunk by chunk.
//
// Made by a control thread, then used by its core's thread only (counters: any thread). Knows no
// network: it is told what arrived and says what is complete. Nothing here allocates after it is
// made.
//
// A push goes through five parts. The reader says what was pushed; the members say whose push is in
// the round; sums add it up; with several racks, the exchange takes the sum to the rack above or
// says that the round ends here; the updates apply the rule and end the round.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/chunks/chunk_updates.h"
#include "server/chunks/pushes/worker_reader.h"
#include "server/chunks/racks/rack_exchange.h"
#include "server/chunks/racks/rack_sums.h"
#include "server/chunks/rounds/round_members.h"

namespace phub::server {

class Shard {
 public:
  // `staging`: staging_buffers(layout, core) buffers; outlives it.
  Shard(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
        BufferPool& staging);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // ---- The parts ----
  RoundMembers members;
  ChunkUpdates updates;
  WorkerReader reader;
  std::optional<RackSums> racks;         // none: the job has one rack
  std::optional<RackExchange> exchange;  // the same

  // Takes one push. kCompleted: the chunk's new parameters are ready for everyone.
  PushResult on_push(const Push& push);
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // Of a job that clips over several servers: what a worker tells of all gradients' norm.
  NormOutcome tell_norm(std::uint32_t worker, double squares);

  // Neither of several racks nor with a quorum; updates come with the last push; pushes are dense
  // and nobody looks at them, neither for values nor for checksums; one stream of each worker.
  bool is_plain() const { return is_plain_; }

  // ---- Of a job with a quorum ----
  // Completes the round that ends first, whoever is in it, and returns its chunk. REQUIRES: rounds
  // have ends, which the core tells `rounds` after kOpened and kQuorum, or are due after go_on.
  std::uint32_t end_round();
  // Whether the job goes on without this worker. If so, go_on is to be called for each chunk. It
  // finds who is released, and is true if the round is complete now, and one of those that
  // end_round() ends: of many chunks, a few at a time.
  bool lose(std::uint32_t worker);
  bool go_on(std::uint32_t slot);
  // Rounds behind the furthest chunk. Of a job with a quorum, whose chunks have no rounds together:
  // the steps of the slowest worker that is there, beyond the `first` of this job.
  std::uint64_t rounds_to_copy(std::uint64_t first) const {
    return members.rounds() ? first + members.rounds()->steps() : updates.copying.rounds_max();
  }

  // ---- Of a job of several racks ----
  // Sums of this rack that waited for its workers' loss scale, which is known now; the first of
  // them goes on: its chunk, and what became of it as after its last push. REQUIRES: there is one.
  bool has_held() const { return !stopped_ && racks && racks->has_held(); }
  std::pair<std::uint32_t, PushResult> take_held();
  // Where a reply to it is to be put that comes from the rack at `seat`; null: none of that size is
  // due from there. REQUIRES: bytes > 0.
  std::byte* place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes);
  // It is there, or in `data`. kCompleted, kDeferred, kUpdatesDue, or what is wrong with it. A
  // buffer of the staging is given back.
  PushResult take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped);

  const ShardChunk& chunk(std::uint32_t slot) const { return updates.chunks[slot]; }
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(updates.chunks.size()); }
  // Bytes of a push of this chunk; 0: there is no such chunk.
  std::uint32_t push_bytes(std::uint32_t slot) const {
    return slot < chunks() ? updates.parameters.bytes(chunk(slot).place) : 0;
  }

  // A worker is gone: no chunk can complete any more, and its memory must not be read again.
  void stop() {
    stopped_ = true;
    updates.stop();
  }
  bool stopped() const { return stopped_; }

 private:
  bool has_right_length(const Push& push, const ShardChunk& chunk) const;
  PushResult initialise(Push push, ShardChunk& chunk);
  PushResult add_own(Push push, ShardChunk& chunk);
  PushResult add_of_racks(Push push, ShardChunk& chunk);
  PushResult add_own_sum(std::uint32_t slot);
  bool add_sum(std::uint32_t slot, std::uint32_t position, const Contribution& sum);
  PushResult finish_of_racks(std::uint32_t slot);
  PushResult join_round(const Push& push, const Contribution& own, ShardChunk& chunk);
  PushResult finish_quorum_round(std::uint32_t slot);
  PushResult go_up(std::uint32_t slot);
  void begin_above(std::uint32_t slot);
  PushResult take_combined(std::uint32_t slot, std::span<const std::byte> reply);
  VoteOutcome count_vote(std::uint32_t worker, const Vote& vote);
  PushResult stop_if_it_ends(PushResult result);

  const std::uint32_t workers_;  // of this rack
  const bool restored_;          // the parameters were there before the first round
  const bool is_plain_;
  const float mean_scale_;  // 1 / workers; with a quorum: 1 / the pushes of a round is meant
  bool stopped_ = false;
  BufferPool& staging_;
};

}  // namespace phub::server
