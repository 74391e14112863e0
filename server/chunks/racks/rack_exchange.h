// What the racks of a job send each other of a chunk: sums go up its tree, replies come down.
//
// Sums are fp32, or rounded to 16 bits with a residual (Seide et al., "1-bit stochastic gradient
// descent", 2014), or only their largest elements (rack_compression.h). Where they are compressed,
// all racks' sum comes down and each rack applies the rule; else new parameters come down.
// Data of a Shard; its core's thread only. Nothing allocates after it is made.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/pushes/push_sums.h"
#include "server/chunks/racks/rack_compression.h"

namespace phub::server {

class RackExchange {
 public:
  // The last three outlive it.
  RackExchange(const JobLayout& layout, std::uint32_t core, std::vector<ShardChunk>& chunks,
               ChunkParameters& parameters, BufferPool& staging);

  // All racks' sum comes down, of which some elements may travel alone, and each rack applies a
  // rule to it.
  bool compresses() const { return compression_.has_value(); }
  // Whether what goes down for the chunk is all racks' sum. Initial parameters cross as they are.
  bool combines(const ShardChunk& chunk) const { return compression_ && chunk.initialised; }

  // ---- Sums that racks below push here ----
  // Bytes of all of the chunk's sum; may_push: whether a push of it may have `bytes`.
  std::uint32_t sum_bytes(const ShardChunk& chunk) const {
    const DataType type = chunk.initialised ? type_ : DataType::kFloat32;
    return static_cast<std::uint32_t>(chunk.place.elements * size_of(type));
  }
  bool may_push(std::uint32_t slot, std::uint32_t bytes) const {
    if (slot >= chunks_.size()) return false;
    const std::uint32_t whole = sum_bytes(chunks_[slot]);
    if (bytes == whole) return true;
    return bytes < whole && (combines(chunks_[slot]) || (is_local_ && is_restored_));
  }
  // kAccepted: `sum` has it in fp32. Else what is wrong with it. The push's buffer is given back or
  // is the sum's.
  PushResult read(const Push& push, const ShardChunk& chunk, Contribution& sum);

  // ---- Sums that go up ----
  // With compression, divides this rack's sum by the loss scale, keeps the selected elements and
  // stores the residual, which so fits any later scale. Without it, does nothing.
  void prepare(std::uint32_t slot, std::byte* sum, float loss_scale);
  // Leaves the chunk's `sum`, which has all of its pushes, where it is sent from, and clears it.
  void write_up(std::uint32_t slot, ChunkSum& sum, PushSums& sums);
  // Does the same with values that are one sum. REQUIRES: compresses.
  void write_up(std::uint32_t slot, std::span<const float> sum) {
    compression_->write_up(slot, sum);
  }
  // The leader's initial parameters go up as they are.
  void write_initial(std::uint32_t slot, kernels::Source values);
  std::span<const std::byte> sum_to_push(std::uint32_t slot) const;
  // Where a Hyper and a Vote are pushed from, at wire.h's places.
  std::byte* words() const { return memory_->rack_words(core_); }

  // ---- Replies that go down, where racks' sums are compressed ----
  // `sum`: of all racks; empty: the update is left out.
  void write_down(std::uint32_t slot, const Hyper& hyper, std::span<const float> sum) {
    compression_->write_down(slot, hyper, sum);
  }
  // Copies initial parameters to where replies are sent from. Racks that make rounds by themselves
  // change theirs while these are on their way down. REQUIRES: compresses.
  void keep_initial(std::uint32_t slot) {
    compression_->pass_down(slot, parameters_.published(chunks_[slot].place));
  }
  // What racks below are replied to with; empty: new parameters.
  std::span<const std::byte> reply_below(std::uint32_t slot) const {
    return compression_ ? compression_->outgoing(slot) : std::span<const std::byte>();
  }
  // Where a device or another server puts the reply to the chunk's sum: where the sum was pushed
  // from, in bytes of the memory that both sides share. REQUIRES: compresses.
  std::uint64_t reply_offset(std::uint32_t slot) const { return offsets_[slot]; }
  // Whether such a reply of the rack above may have `bytes`: a Hyper, and a sum or none.
  bool may_reply(const ShardChunk& chunk, std::size_t bytes) const {
    const std::size_t least = sizeof(Hyper) + (leaves_out_ ? 0 : 1);
    return bytes >= least && bytes <= sizeof(Hyper) + sum_bytes(chunk);
  }
  // Reads one. kAccepted: the chunk has its Hyper, and its sum in fp32 unless the update is left
  // out. `goes_on`: racks below are replied to with the same. REQUIRES: nobody else writes to the
  // reply.
  PushResult read_reply(std::uint32_t slot, std::span<const std::byte> reply, bool goes_on);

  // A device of the rack above writes replies into the parameters, as soon as it has the sum; one
  // that is a sum it writes elsewhere. Set before the first push.
  bool replies_land_unseen = false;

 private:
  std::byte* copy_of(std::span<const std::byte> bytes);  // in a staging buffer
  void round(std::uint32_t slot, float* sum, std::span<const float> rest,
             std::span<float> next) const;
  std::byte* outgoing(std::uint32_t slot) const {
    return memory_->rack_sums->data() + offsets_[slot];
  }

  const std::shared_ptr<JobMemory> memory_;
  const std::uint32_t core_;
  const std::vector<std::uint64_t> offsets_;  // by slot, in rack_sums
  const DataType type_;                       // of what other racks push and are pushed
  const bool leaves_out_;                     // rounds, by votes
  const bool is_local_;                       // racks make rounds by themselves
  // The parameters were there before the first round. A local rack that is ahead then pushes its
  // difference before this one has begun.
  const bool is_restored_;
  std::vector<ShardChunk>& chunks_;
  ChunkParameters& parameters_;
  BufferPool& staging_;
  std::optional<RackCompression> compression_;  // none: racks' sums go whole
};

}  // namespace phub::server
