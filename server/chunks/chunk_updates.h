// The end of a chunk's round: its update, at once or when it is due, and what follows it.
//
// Where the rule is applied here, a complete sum becomes new parameters in one pass, unless the
// update waits for more (deferred_updates.h). Data of a Shard; its core's thread only (counters:
// any thread). Nothing allocates after it is made.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/counter.h"
#include "server/chunks/chunk/chunk_copying.h"
#include "server/chunks/chunk/chunk_replies.h"
#include "server/chunks/deferred_updates.h"
#include "server/chunks/pushes/push_sums.h"
#include "server/chunks/racks/open_steps.h"
#include "server/chunks/racks/outer_steps.h"
#include "server/chunks/racks/rack_exchange.h"
#include "server/chunks/rounds/round_members.h"

namespace phub::server {

class ChunkUpdates {
 public:
  // The last two outlive it.
  ChunkUpdates(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
               BufferPool& staging, RoundMembers& members);
  ChunkUpdates(const ChunkUpdates&) = delete;
  ChunkUpdates& operator=(const ChunkUpdates&) = delete;

  // After the chunks know their racks, and before anything is pushed. They outlive it.
  struct Joined {
    RackExchange* exchange = nullptr;  // null: one rack
    OuterSteps* outer = nullptr;       // null: racks make no rounds by themselves
    OpenSteps* open = nullptr;         // null: or they wait for each other
    ValueWatch* watch = nullptr;       // null: nobody looks at sums
  };
  void join(const Joined& joined) { joined_ = joined; }

  // Applies the rule to the chunk's sum, whose pushes are all there, and ends its round. Only plain
  // jobs use it.
  void update(std::uint32_t slot) {
    copying.copy_if_due(chunks[slot]);
    apply(slot);
    complete(slot);
  }
  // The same of any job: kCompleted; kDeferred or kUpdatesDue, when the update comes later; or
  // kForbidden, when the job is to end instead.
  PushResult finish(std::uint32_t slot);
  // The chunk has its initial parameters.
  void begin(std::uint32_t slot);
  // Racks that make rounds by themselves: takes the difference that a rack below pushed.
  PushResult add_difference(const Push& push);
  // Racks that do not wait for each other: does for this rack's round what an exchange says.
  // Returns kExchanging.
  PushResult settle(std::uint32_t slot);
  // Other racks that make rounds by themselves: makes the outer step with all racks' difference,
  // which is the chunk's sum.
  void step_outer(std::uint32_t slot);
  // New parameters are there: the chunk's round ends.
  void complete(std::uint32_t slot);
  // Ends the chunk's round without an update, because the root left out the round.
  void leave_out(std::uint32_t slot);
  // Marks that a part of the rack above's reply may already be in the parameters.
  void begin_landing(std::uint32_t slot);

  // ---- Updates that come later ----
  // The job stops: none is due any more.
  void stop() {
    if (gate_) gate_->stop();
  }
  bool has_due() const { return gate_ && gate_->has_due(); }
  // Updates are due, or will be when the norm is known.
  bool awaits() const { return gate_ && gate_->awaits(); }
  // Makes a chunk ready for its update, where that is a pass of its own (rule lamb). False: all
  // that are to be updated next are. REQUIRES: has_due.
  bool prepare_due();
  // Updates (or, after a vote against it, skips) the chunk whose update is due for longest; returns
  // it and what became of it, as after its last push. What prepare_due would do is done before.
  // REQUIRES: has_due.
  std::pair<std::uint32_t, PushResult> update_due();
  // Null: updates are made with the last push.
  DeferredUpdates* gate() { return gate_ ? &*gate_ : nullptr; }
  const DeferredUpdates* gate() const { return gate_ ? &*gate_ : nullptr; }

  Counter elements_touched;  // of chunks whose parameters are in memory: it grows with their rounds
  Counter chunks_completed;
  SkipCounters skipped;
  std::vector<ShardChunk> chunks;  // by slot
  ChunkParameters parameters;
  PushSums sums;  // of workers; with several racks, of racks
  ChunkCopying copying;
  ChunkReplies replies;

 private:
  void apply(std::uint32_t slot);
  bool apply_looking(std::uint32_t slot);
  PushResult on_summed(std::uint32_t slot);
  PushResult update_deferred(std::uint32_t slot);
  PushResult end(std::uint32_t slot);
  PushResult end_exchange(std::uint32_t slot);
  void write_down(std::uint32_t slot, bool is_left_out);

  const bool restored_;  // the parameters were there before the first round
  RoundMembers& members_;
  std::optional<DeferredUpdates> gate_;
  Joined joined_;
};

}  // namespace phub::server
