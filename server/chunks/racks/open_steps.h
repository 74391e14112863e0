// Exchanges of racks that do not wait long for each other (rack_rounds): how differences and
// parameters move. OuterRounds decides when.
//
// A rack pushes its difference and keeps a copy. If the outer step comes while its workers wait, it
// takes the new parameters. Otherwise its own rounds go on, and at the end of one of them it adds
// what the outer step moved and its own difference did not. Data of a Shard; its core's thread
// only. Nothing allocates after it is made.
#pragma once

#include <span>
#include <vector>

#include "server/chunks/racks/outer_rounds.h"
#include "server/chunks/racks/outer_steps.h"
#include "server/chunks/racks/rack_replies.h"

namespace phub::server {

class OpenSteps {
 public:
  // The last four outlive it.
  OpenSteps(const JobLayout& layout, std::vector<ShardChunk>& chunks, OuterSteps& outer,
            RackExchange& exchange, BufferPool& staging);

  // This rack begins with what racks have together. Others may have made outer steps before.
  void begin_restored(std::uint32_t slot);
  // Ends a round of this rack: merges what other racks moved, and pushes a difference if one is
  // due. `rounds.outcome` says what follows, as after the next three.
  void end_round(std::uint32_t slot);
  // Takes the difference of a rack below. kExchanging, or what is wrong with the push, whose buffer
  // is given back.
  PushResult add(const Push& push);
  // Takes the parameters that the root has after its outer step. kExchanging or kDuplicate.
  PushResult take_reply(std::uint32_t slot, std::span<const std::byte> parameters);
  // The time is over in which others may come. Returns the chunk. REQUIRES: rounds.waits has one.
  std::uint32_t end_wait();

  // Whether such a reply is due.
  bool may_reply(std::uint32_t slot, std::uint32_t bytes) const;
  // What the rack is replied to with; empty: there was no outer step with it yet.
  std::span<const std::byte> reply_to(std::uint32_t rack, std::uint32_t slot) const {
    return replies_.of(rack, slot);
  }

  OuterRounds rounds;

 private:
  void push_own(std::uint32_t slot);
  void add_to_sum(std::uint32_t slot, std::byte* difference);
  void step(std::uint32_t slot);
  void take_own(std::uint32_t slot, std::span<const float> before, bool is_in);
  void stop_waiting(std::uint32_t slot);
  float* take_buffer() { return reinterpret_cast<float*>(staging_.take()); }
  void give_buffer(float* buffer) { staging_.give(reinterpret_cast<std::byte*>(buffer)); }

  const RackPlace place_;
  const std::uint32_t workers_;  // of this rack
  const bool may_wait_;          // workers of a rack with a quorum never do
  std::vector<ShardChunk>& chunks_;
  OuterSteps& outer_;
  RackExchange& exchange_;
  BufferPool& staging_;
  RackReplies replies_;
  std::vector<float*> sums_;  // by slot: of the differences that are there; null: none is
};

}  // namespace phub::server
