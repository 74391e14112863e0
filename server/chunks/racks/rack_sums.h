// The sums of this rack's workers in a job of several racks, chunk by chunk, and their votes.
//
// Such a sum is one contribution to the chunk's sum in ChunkUpdates, which has those of the racks
// below too. With order deterministic, bits depend on the orders of workers and racks alone.
// Data of a Shard; its core's thread only. Nothing grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "server/chunks/chunk/index_queue.h"
#include "server/chunks/pushes/push_sums.h"
#include "server/chunks/pushes/worker_reader.h"
#include "server/chunks/rounds/votes.h"

namespace phub::server {

class RackSums {
 public:
  // Sets what of the chunks depends on their trees. Where racks make rounds by themselves, their
  // workers' sums are not here (outer_steps.h).
  RackSums(const JobLayout& layout, std::uint32_t core, std::span<ShardChunk> chunks,
           WorkerReader& reader, BufferPool& staging);

  const RackPlace& place() const { return place_; }
  std::uint32_t workers() const { return workers_; }  // of this rack
  // Chunks of this core that end here.
  std::uint32_t roots() const { return roots_; }
  bool is_worker(std::uint32_t seat) const { return seat < workers_; }
  // Whether a member pushes the chunk here, and is replied to with it.
  bool pushes(std::uint32_t seat, const ShardChunk& chunk) const {
    return is_worker(seat) || place_.is_below(chunk.tree, place_.rack_at(seat, workers_));
  }
  // Whether the member is the rack to which the chunk goes up.
  bool is_above(std::uint32_t seat, const ShardChunk& chunk) const {
    return place_.above(chunk.tree) == place_.rack_at(seat, workers_);
  }
  // Whether sums of this core's chunks go up to that rack.
  bool pushes_to(std::uint32_t rack) const { return pushes_to_[rack]; }
  // Among the pushes of the chunk's second sum.
  std::uint32_t position(std::uint32_t seat, const ShardChunk& chunk) const {
    const std::uint32_t rack = is_worker(seat) ? place_.own() : place_.rack_at(seat, workers_);
    return positions_[chunk.tree * place_.racks() + rack];
  }

  // Adds a worker's push. True: it was the last one.
  bool add(const Push& push, const Contribution& own, const ShardChunk& chunk) {
    return sums_.add_read(push, own, first_[push.slot], chunk.place.elements);
  }
  // Looks at what is in place before it is added up. False: the job is to end. REQUIRES: the last
  // push is there.
  bool read_rest(std::uint32_t slot, WorkerReader& reader) const {
    return reader.read_rest(slot, sums_, first_[slot]);
  }
  // Their sum in fp32, in a staging buffer. REQUIRES: the last push is there.
  Contribution take(std::uint32_t slot, const ShardChunk& chunk);
  // ---- Where racks' sums are compressed, they are divided by the loss scale before ----
  // The scale of the chunk's round is known. A dynamic one comes with the votes, and is not that of
  // a chunk which is a round ahead of others.
  bool has_scale(std::uint32_t slot) const { return scale_.is_known && !has_gone_on(slot); }
  float scale() const { return scale_.factor; }
  // The chunk's sum waits for the scale, in one buffer. REQUIRES: the scale is not known, and the
  // last push is there.
  void hold(std::uint32_t slot, const ShardChunk& chunk) {
    sums_.merge(slot, first_[slot], chunk.place.elements);
    held_.push(slot);
  }
  // A sum that waited for the scale, which is known now. Those of the next round are behind it.
  bool has_held() const { return !held_.empty() && has_scale(held_.front()); }
  std::size_t held() const { return held_.size(); }
  std::uint32_t take_held() {
    const std::uint32_t slot = held_.front();
    held_.pop();
    return slot;
  }
  // The chunk's sum goes on. After the last one of a round the next round's scale is not known.
  void go_on(std::uint32_t slot) {
    if (!scale_.is_voted) return;
    gone_on_[slot] = true;
    if (++scale_.chunks < first_.size()) return;
    std::fill(gone_on_.begin(), gone_on_.end(), false);
    scale_.chunks = 0;
    scale_.is_known = false;
  }

  // Counts a worker's initial push, which is not added. True: it was the last one.
  bool is_last_worker(std::uint32_t slot) {
    ChunkSum& sum = first_[slot];
    if (++sum.pushes < workers_) return false;
    sum.clear();
    return true;
  }

  // Counts the vote of one of this rack's workers. Votes of other racks are not counted here.
  VoteOutcome vote(std::uint32_t seat, const Vote& vote) { return votes_.add(seat, vote); }
  bool have_voted() const { return votes_.are_all(); }
  Vote take_vote();

 private:
  // The loss scale that this rack's workers have.
  struct Scale {
    bool is_voted = false;
    bool is_known = true;
    float factor = 1.0F;
    std::size_t chunks = 0;  // of the round, that have gone on
  };

  bool has_gone_on(std::uint32_t slot) const { return scale_.is_voted && gone_on_[slot]; }

  const RackPlace place_;
  const std::uint32_t workers_;
  PushSums sums_;
  std::vector<ChunkSum> first_;           // by slot
  std::vector<std::uint32_t> positions_;  // [tree][rack]
  std::vector<bool> pushes_to_;           // by rack
  std::uint32_t roots_ = 0;
  Votes votes_;
  Scale scale_;
  std::vector<bool> gone_on_;  // by slot, with a voted scale: in this round
  IndexQueue held_;            // slots
};

}  // namespace phub::server
