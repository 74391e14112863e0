// Updates of a job that do not come with the last push.
//
// A sum waits until its key is whole (lars, lamb), until the workers have voted, or until the norm
// of all gradients is known (clipping). With a static loss scale it only waits for a check that it
// is finite.
//
// Chunks that are updated together are a group. With clipping the group has all chunks of the core,
// under lars and lamb all chunks of a key, else one chunk. A group is due when the sums of all its
// chunks are there. If the job votes, all workers must have voted in its round. With clipping, the
// norm must be known (norms/gradient_norm.h). Under lamb there are two passes over a group: first
// directions take the places of sums. When the norm of the last one is known they become updates.
//
// Data of a Shard; its core's thread only. Nothing grows after set-up.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/counter.h"
#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/chunk/index_queue.h"
#include "server/chunks/norms/gradient_norm.h"
#include "server/chunks/norms/key_norms.h"
#include "server/chunks/rounds/votes.h"

namespace phub::server {

// Any thread may read them.
struct SkipCounters {
  Counter rounds;   // by the workers' votes
  Counter updates;  // of single chunks: the sum was not finite
};

class DeferredUpdates {
 public:
  enum class Due { kLater, kQueued, kAtOnce };

  // `chunks` has all chunks of the core. The last three arguments outlive this.
  DeferredUpdates(const JobLayout& layout, std::uint32_t core,
                  const std::vector<ShardChunk>& chunks, ChunkParameters& parameters,
                  SkipCounters& skipped);

  // Is called when the chunk has its initial parameters.
  void on_initialised(const ShardChunk& chunk);
  // Is called when the chunk's sum of a round is there, in fp32. kAtOnce: the caller updates it
  // now.
  Due on_sum(std::uint32_t slot);
  // The job's workers vote.
  bool votes() const { return scale_.kind == LossScaling::kVoted; }
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // Null: the job does not clip over several servers.
  NormWords* words() { return norm_.words(); }
  const NormWords* words() const { return norm_.words(); }

  // Drops all updates that are due.
  void stop() { due_.clear(); }
  // An update can be made now. Inside a group the norm is known already.
  bool has_due() const {
    return !due_.empty() && (!norm_.is_on() || front_.is_prepared ||
                             norm_.is_known(chunks_[groups_[due_.front()].first_slot].rounds));
  }
  // Updates are due, or will be when the norm is known.
  bool awaits() const { return !due_.empty(); }
  // Rule lamb: returns the chunk whose direction is made next, by `direct`, before any update.
  // Nothing: there is none. REQUIRES: has_due.
  std::optional<std::uint32_t> next_to_direct();
  void direct(std::uint32_t slot);
  // Returns the chunk that is updated next, in the order in which they became due. REQUIRES:
  // has_due, and next_to_direct returns nothing.
  std::uint32_t take_due();
  // No core updates anything of the chunk's round, because of its votes or because its norm is not
  // finite. REQUIRES: the chunk is updated next.
  bool leaves_out_round(std::uint32_t slot) const {
    return (chunks_[slot].votes_here && votes_.are_against()) || !std::isfinite(front_.clip);
  }
  // The chunk's sum is finite, or the norm of its key says so instead.
  bool is_finite(std::uint32_t slot) const { return finite_[slot]; }
  // Racks with rule lars or lamb: the moving average takes runs that are left out too.
  bool averages_all() const { return averages_all_; }
  // Rule lamb: a chunk's direction takes the place of its sum before the update.
  bool directs() const { return is_lamb_; }
  // Updates the chunk. False: the update was left out, or a part of it.
  bool update(std::uint32_t slot);

  // Returns how many sums wait.
  std::size_t sums() const { return sums_; }

 private:
  struct Group {
    std::uint32_t first_slot = 0;
    std::uint32_t slots = 0;
    std::uint32_t summed = 0;  // chunks whose sum of the next update is there
    std::uint32_t first_key = 0;
    std::uint32_t keys = 0;
  };

  // The progress of the first group that is due.
  struct Front {
    bool is_prepared = false;
    std::uint32_t directed = 0;  // chunks whose direction is made
    std::uint32_t taken = 0;     // chunks that take_due returned
    float clip = 1.0F;           // the factor that clips its gradients
  };

  bool waits_for_votes(const Group& group) const {
    return votes() && chunks_[group.first_slot].votes_here;
  }
  bool is_due(const Group& group) const;
  void look_at(std::uint32_t slot);
  void prepare(Group& group);
  bool update_runs(const ShardChunk& chunk);
  Hyper unscaled_hyper(const ShardChunk& chunk) const;

  const std::vector<ShardChunk>& chunks_;
  ChunkParameters& parameters_;
  SkipCounters& skipped_;
  LossScale scale_;
  const bool averages_all_;  // a rack below cannot tell which runs were left out
  const bool divides_;  // sums are divided by the loss scale here, else by racks (rack_exchange.h)
  const bool is_lamb_;
  std::optional<KeyNorms> norms_;  // rules lars, lamb
  GradientNorm norm_;
  std::vector<Group> groups_;            // in order of their slots
  std::vector<std::uint32_t> group_of_;  // by slot
  std::vector<bool> finite_;  // by slot: the sum is; under lars and lamb norms say so instead
  Votes votes_;
  IndexQueue due_;
  Front front_;
  std::size_t sums_ = 0;
};

}  // namespace phub::server
