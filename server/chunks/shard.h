// One job's chunks on one core: aggregation, then the update rule, chunk by chunk.
//
// Made by a control thread, then used by its core's thread only (counters: any thread). Knows no
// network: it is told what arrived and says what is complete. Nothing here allocates after it is
// made.
//
// A push goes through five parts. The members refuse one that comes too early. The reader says what
// was pushed, and sums add it up. With several racks, the exchange takes the sum to the rack above
// or says that the round ends here. The updates apply the rule and end the round.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/chunks/chunk_updates.h"
#include "server/chunks/pushes/worker_reader.h"
#include "server/chunks/rack_rounds.h"
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
  std::optional<RackSums> racks;          // none: the job has one rack
  std::optional<RackExchange> exchange;   // the same
  std::optional<OuterSteps> outer;        // none: racks make no rounds by themselves
  std::optional<OpenSteps> open;          // none: or they wait for each other
  std::optional<RackRounds> rack_rounds;  // none: the job has one rack

  // Takes one push. kCompleted: the chunk's new parameters are ready for everyone.
  PushResult on_push(const Push& push);
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // Takes a worker's sum of squares of all gradients. Only jobs that clip over several servers use
  // it.
  NormOutcome tell_norm(std::uint32_t worker, double squares);

  // Neither of several racks nor with a quorum; updates come with the last push; pushes are dense
  // and nobody looks at them, neither for values nor for checksums; one stream of each worker.
  bool is_plain() const { return is_plain_; }

  // ---- For jobs with a quorum ----
  // Completes the round with the earliest end, with the pushes that have come, and returns its
  // chunk and the result, as on_push does. REQUIRES: members.rounds()->has_ends().
  std::pair<std::uint32_t, PushResult> end_round();
  // Removes a worker. True: the job goes on without it, and go_on must be called for each chunk.
  bool lose(std::uint32_t worker);
  // Finds the workers that now get a reply. True: the round is complete, and end_round() ends it.
  bool go_on(std::uint32_t slot);
  // Rounds behind the furthest chunk. With a quorum chunks have no rounds together: returns the
  // steps of the slowest present worker, beyond the `first` of this job.
  std::uint64_t rounds_to_copy(std::uint64_t first) const {
    return members.rounds() ? first + members.rounds()->steps() : updates.copying.rounds_max();
  }

  // ---- For jobs of several racks ----
  // True: sums of this rack waited for the loss scale, and it is known now.
  bool has_held() const { return !stopped_ && racks && racks->has_held(); }
  // Continues the first of these sums. Returns its chunk and the result, as on_push does. REQUIRES:
  // has_held.
  std::pair<std::uint32_t, PushResult> take_held() {
    const auto [slot, result] = rack_rounds->take_held();
    return {slot, stop_if_it_ends(result)};
  }
  // Takes the reply `data` of the rack above, which may be at rack_rounds->place_of_reply already.
  // Returns kCompleted, kDeferred, kUpdatesDue, or what is wrong. Gives its staging buffer back.
  PushResult take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped);

  const ShardChunk& chunk(std::uint32_t slot) const { return updates.chunks[slot]; }
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(updates.chunks.size()); }
  // Bytes of a push of this chunk; 0: there is no such chunk.
  std::uint32_t push_bytes(std::uint32_t slot) const {
    return slot < chunks() ? updates.parameters.bytes(chunk(slot).place) : 0;
  }

  // No chunk completes any more, and the workers' memory is not read again.
  void stop() {
    stopped_ = true;
    updates.stop();
  }
  bool stopped() const { return stopped_; }

 private:
  bool has_right_length(const Push& push, const ShardChunk& chunk) const;
  PushResult initialise(Push push, ShardChunk& chunk);
  PushResult add_own(Push push, ShardChunk& chunk);
  PushResult join_round(const Push& push, const Contribution& own, ShardChunk& chunk);
  PushResult finish_quorum_round(std::uint32_t slot);
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
