// Of a job of several racks: the sums of this rack's workers, chunk by chunk, and those that wait
// to be pushed to the rack above.
//
// A chunk has two sums here. The first is of this rack's workers, and is one of the pushes of the
// second, which has those of the racks below too: so its bits depend on the racks' order alone.
// Data of a Shard; its core's thread only. Nothing grows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/chunks/push_sums.h"
#include "server/chunks/rounds/votes.h"
#include "server/job/memory.h"

namespace phub::server {

class RackSums {
 public:
  RackSums(const JobLayout& layout, std::uint32_t core, std::size_t chunks,
           std::shared_ptr<JobMemory> memory, BufferPool& staging);

  const RackPlace& place() const { return place_; }
  // Of this rack's workers. Before anything is added.
  void watch(ValueWatch& watch) { sums_.watch(watch); }
  // Sets what of the chunk depends on its tree.
  void add(std::uint32_t tree, ShardChunk& chunk);
  // Chunks of this core that end here.
  std::uint32_t roots() const { return roots_; }

  bool is_root(const ShardChunk& chunk) const { return place_.is_root(chunk.tree); }
  bool is_worker(std::uint32_t seat) const { return seat < workers_; }
  // Whether a member pushes the chunk here, and is replied to with it.
  bool pushes(std::uint32_t seat, const ShardChunk& chunk) const {
    return is_worker(seat) || place_.is_below(chunk.tree, place_.rack_at(seat, workers_));
  }
  // Whether the rack at the seat is the one to which the chunk goes up.
  bool is_above(std::uint32_t seat, const ShardChunk& chunk) const {
    return place_.above(chunk.tree) == place_.rack_at(seat, workers_);
  }
  // Among the pushes of the chunk's second sum.
  std::uint32_t position(std::uint32_t seat, const ShardChunk& chunk) const {
    const std::uint32_t rack = is_worker(seat) ? place_.own() : place_.rack_at(seat, workers_);
    return positions_[chunk.tree * place_.racks() + rack];
  }

  // A worker's push. Data: it was the last one, and this is their sum in fp32, in a staging buffer.
  std::byte* add(const Push& push, const ShardChunk& chunk);
  // The same, of a push that is only counted.
  bool is_last_worker(std::uint32_t slot) {
    ChunkSum& sum = first_[slot];
    if (++sum.pushes < workers_) return false;
    sum.clear();
    return true;
  }
  // Of what other racks push and are pushed to.
  DataType type() const { return type_; }
  // What other racks push, in fp32. Takes the place of the push's buffer.
  Contribution widened(const Push& push, const ShardChunk& chunk) const;
  // Adds `rest`, what earlier rounds have left over, to the sum, and rounds it to what goes up.
  // Keeps what is left now in `next`, so that nothing is lost over the rounds. This is error
  // feedback (Seide et al., "1-bit stochastic gradient descent", 2014). What is not finite leaves
  // nothing.
  void round(const ShardChunk& chunk, float* sum, std::span<const float> rest,
             std::span<float> next) const;
  // Where the chunk is pushed from.
  std::byte* outgoing(const ShardChunk& chunk) const { return memory_->rack_sum(chunk.place.home); }
  // And a Hyper and a Vote, at wire.h's places.
  std::byte* words() const { return memory_->rack_words(core_); }

  // Of this rack's workers, when the last of them has voted; no member else does so here.
  VoteOutcome vote(std::uint32_t seat, const Vote& vote) { return votes_.add(seat, vote); }
  bool have_voted() const { return votes_.are_all(); }
  Vote take_vote();

 private:
  std::shared_ptr<JobMemory> memory_;
  const RackPlace place_;
  const std::uint32_t core_;
  const std::uint32_t workers_;
  const DataType type_;
  BufferPool& staging_;
  PushSums sums_;
  std::vector<ChunkSum> first_;             // by slot
  std::vector<std::uint32_t> positions_;    // [tree][rack]
  std::vector<std::uint32_t> members_;      // by tree
  std::vector<std::uint32_t> leader_seat_;  // by tree
  std::uint32_t roots_ = 0;
  Votes votes_;
};

}  // namespace phub::server
