// Adds up the pushes of each chunk, in one order: the workers', or that of their arrival.
//
// A push that the transport staged (tcp) is folded into the chunk's sum while it is hot: the first
// one's buffer becomes the sum, so it is not copied. A push that stays in the worker's memory (shm)
// is left there: `sources` has it when the last one is there. Data of a Shard; its core's thread
// only. Nothing grows.
#pragma once

#include <span>
#include <vector>

#include "kernels/reduce.h"
#include "server/chunks/shard_chunk.h"
#include "server/job/buffer_pool.h"
#include "server/job/layout.h"

namespace phub::server {

struct Push {
  std::uint32_t worker;
  std::uint32_t slot;
  std::byte* data;  // if staged, a buffer of the job's staging, which the shard gives back
  std::uint32_t bytes;
  bool staged;
  const Hyper* hyper;  // what worker 0 last set; ignored from others
};

class PushSums {
 public:
  PushSums(const JobLayout& layout, std::size_t chunks, BufferPool& staging)
      : staging_(staging),
        workers_(layout.workers),
        wire_type_(layout.wire_type),
        deterministic_(layout.deterministic),
        contributions_(chunks * layout.workers) {}

  // True: it is the last one of the round. REQUIRES: the worker's first in this round.
  bool add(const Push& push, ShardChunk& chunk);

  // These REQUIRE that the last one is there.
  // What is not added up yet, from element `offset` of the chunk on.
  std::size_t sources(std::uint32_t slot, const ChunkSum& sum, std::uint32_t offset,
                      std::span<kernels::Source> sources) const {
    return sources_of(sum, &contributions_[slot * workers_], workers_, offset, sources);
  }
  // Leaves one fp32 sum of all, in a buffer that is there already where one is.
  void merge(std::uint32_t slot, ShardChunk& chunk) {
    add_up(chunk, &contributions_[slot * workers_], workers_ - chunk.sum.folded);
  }
  // Gives all buffers back, for the next round.
  void clear(std::uint32_t slot, ChunkSum& sum);

 private:
  struct Contribution {
    std::byte* data = nullptr;
    bool staged = false;
  };

  void fold(ShardChunk& chunk, Contribution* contributions);
  void fold_in_place(ShardChunk& chunk, Contribution* contributions);
  void fold_many(ShardChunk& chunk, Contribution* contributions);
  void add_up(ShardChunk& chunk, Contribution* contributions, std::uint32_t count);
  void replace(ChunkSum& sum, std::byte* wide);
  std::size_t sources_of(const ChunkSum& sum, const Contribution* contributions, std::uint32_t end,
                         std::uint32_t offset, std::span<kernels::Source> sources) const;

  BufferPool& staging_;
  std::uint32_t workers_;
  DataType wire_type_;
  bool deterministic_;
  std::vector<Contribution> contributions_;  // [chunk][position]
};

}  // namespace phub::server
