// Updates of a job that do not come with the last push: sums wait until their key is whole (lars,
// lamb), until the workers have voted, until the norm of all gradients is known (clipping), or just
// to be looked at whether they are finite (static loss scale).
//
// Chunks that are updated together are a group: all that the core has with clipping, all chunks of
// a key under lars and lamb, else one chunk. Under lamb a group is gone over twice: directions take
// the places of sums, and when the last one's norm is known they become updates. A group is due
// when the sums of all its chunks are there and, if the job votes, all workers have voted in its
// round; with clipping, once the server's other cores have their sums too (norm_board.h), or the
// workers have told the norm of those of several servers (norm_words.h). Data of a Shard; its
// core's thread only. Nothing grows after it is made.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/counter.h"
#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/chunk/index_queue.h"
#include "server/chunks/norms/key_norms.h"
#include "server/chunks/norms/norm_words.h"
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

  // The last three outlive it; the chunks are all there.
  DeferredUpdates(const JobLayout& layout, std::uint32_t core,
                  const std::vector<ShardChunk>& chunks, ChunkParameters& parameters,
                  SkipCounters& skipped);

  // The chunk has its initial parameters.
  void on_initialised(const ShardChunk& chunk);
  // The chunk's sum of a round is there, in fp32. kAtOnce: it is to be updated.
  Due on_sum(std::uint32_t slot);
  // The job votes.
  bool votes() const { return scale_.kind == LossScaling::kVoted; }
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // Null: the job does not clip over several servers.
  NormWords* words() { return words_ ? &*words_ : nullptr; }
  const NormWords* words() const { return words_ ? &*words_ : nullptr; }

  // Nothing is due any more.
  void stop() { due_.clear(); }
  bool has_due() const { return !due_.empty() && (clip_norm_ == 0.0F || is_norm_known()); }
  // Has some, or will have when the norm is known.
  bool awaits() const { return !due_.empty(); }
  // Rule lamb: the chunk whose direction is to be made by `direct` before an update follows;
  // nothing: there is none. REQUIRES: has_due.
  std::optional<std::uint32_t> next_to_direct();
  void direct(std::uint32_t slot);
  // The chunk that is to be updated next, in the order in which they became due. REQUIRES: has_due,
  // and no direction is to be made.
  std::uint32_t take_due();
  // Nothing of the chunk's round is updated, on no core: by its votes, or since its norm is not
  // finite. REQUIRES: the chunk is updated next.
  bool leaves_out_round(std::uint32_t slot) const {
    return (chunks_[slot].votes_here && votes_.are_against()) || !std::isfinite(front_.clip);
  }
  // The chunk's sum is, or its key's norm says so.
  bool is_finite(std::uint32_t slot) const { return finite_[slot]; }
  // Racks with rule lars or lamb: the moving average takes runs that are left out too.
  bool averages_all() const { return averages_all_; }
  // Rule lamb: a chunk's direction takes the place of its sum before the update.
  bool directs() const { return is_lamb_; }
  // False: the update was left out, or a part of it.
  bool update(std::uint32_t slot);

  std::size_t sums() const { return sums_; }  // that wait

 private:
  struct Group {
    std::uint32_t first_slot = 0;
    std::uint32_t slots = 0;
    std::uint32_t summed = 0;  // chunks, of the round that is not being updated yet
    std::uint32_t first_key = 0;
    std::uint32_t keys = 0;
  };

  // The first due group.
  struct Front {
    bool is_prepared = false;
    std::uint32_t directed = 0;  // chunks
    std::uint32_t taken = 0;     // chunks
    float clip = 1.0F;           // of its round
  };

  bool waits_for_votes(const Group& group) const {
    return votes() && chunks_[group.first_slot].votes_here;
  }
  bool is_due(const Group& group) const;
  bool is_norm_known() const;
  double take_squares(std::uint64_t round);
  void look_at(std::uint32_t slot);
  void prepare(Group& group);
  bool update_runs(const ShardChunk& chunk);
  Hyper unscaled_hyper(const ShardChunk& chunk) const;

  const std::vector<ShardChunk>& chunks_;
  ChunkParameters& parameters_;
  SkipCounters& skipped_;
  LossScale scale_;
  const bool averages_all_;  // also runs that are left out: a rack below cannot tell them apart
  const bool divides_;  // sums by the loss scale; else racks have done so (racks/rack_exchange.h)
  const bool is_lamb_;
  std::optional<KeyNorms> norms_;  // rules lars, lamb
  const float clip_norm_;          // 0: none
  const std::uint32_t core_;
  const std::shared_ptr<const Plan> plan_;
  const std::vector<std::uint32_t>& ids_;  // of the chunks in it, by slot
  std::optional<NormWords> words_;         // of a norm over several servers
  std::vector<Group> groups_;              // in order of their slots
  std::vector<std::uint32_t> group_of_;    // by slot
  std::vector<bool> finite_;               // by slot: the sum; lars and lamb look at norms instead
  Votes votes_;
  IndexQueue due_;
  Front front_;
  std::size_t sums_ = 0;
};

}  // namespace phub::server
