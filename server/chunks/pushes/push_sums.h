// Adds up the pushes of each chunk, in one order: the workers', or that of their arrival.
//
// A push that the transport staged (tcp) is folded into the chunk's sum while it is hot: the first
// one's buffer becomes the sum, so it is not copied. A push that stays in the worker's memory (shm)
// is left there: `sources` has it when the last one is there. Data of a Shard; its core's thread
// only. Nothing grows.
#pragma once

#include <span>
#include <vector>

#include "common/base/encoding.h"
#include "kernels/reduce.h"
#include "server/chunks/chunk/shard_chunk.h"
#include "server/chunks/pushes/push.h"
#include "server/chunks/pushes/value_watch.h"
#include "server/job/buffer_pool.h"
#include "server/job/layout.h"

namespace phub::server {

// Whose pushes are added, and of what type.
struct Pushers {
  std::uint32_t most = 1;  // of a chunk
  DataType type = DataType::kFloat32;
  bool in_order = true;  // of their positions; else of arrival
  Encoding encoding = Encoding::kDense;
};

class PushSums {
 public:
  PushSums(const Pushers& pushers, std::size_t chunks, BufferPool& staging)
      : staging_(staging), pushers_(pushers), contributions_(chunks * pushers.most) {}

  // Whoever is added is to be looked at by `watch`, which outlives this. Before anything is added.
  void watch(ValueWatch& watch) {
    watch_ = &watch;
    know_workers();
  }
  // From now on it is known whose each push is. REQUIRES: pushes are added by add_read.
  void know_workers() {
    if (!pushers_.in_order) workers_.resize(contributions_.size());
  }

  // True: it is the last one of the round. REQUIRES: the member's first in this round.
  bool add(std::uint32_t slot, std::uint32_t position, const Contribution& push, ChunkSum& sum,
           std::uint32_t elements);
  // The same for jobs whose encoding is not dense: all that is next in order is added to the sum at
  // once, staged or not, for a packed push is no source of an update.
  bool add_folded(std::uint32_t slot, std::uint32_t position, const Contribution& push,
                  ChunkSum& sum, std::uint32_t elements);

  // The same of a push that a reader has read: noted, and added as the job's encoding asks.
  bool add_read(const Push& push, const Contribution& own, ChunkSum& sum, std::uint32_t elements) {
    note(push.slot, push.worker, sum);
    return pushers_.encoding == Encoding::kDense
               ? add(push.slot, push.worker, own, sum, elements)
               : add_folded(push.slot, push.worker, own, sum, elements);
  }

  // The same of a push, packed or not, that is multiplied by `weight` before it is added. These two
  // REQUIRE that pushes are added in order of arrival, and nothing but by these two.
  void add_weighted(std::uint32_t slot, const Contribution& push, float weight, ChunkSum& sum,
                    std::uint32_t elements);
  // Leaves no push where it came from: who pushed it may be gone before the round is over.
  void fold_all(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
    if (sum.folded < sum.pushes) add_up(slot, sum, elements, sum.pushes - sum.folded);
  }

  // These REQUIRE that the last one is there.
  // What is not added up yet, from element `offset` of the chunk on.
  std::size_t sources(std::uint32_t slot, const ChunkSum& sum, std::uint32_t offset,
                      std::span<kernels::Source> sources) const {
    return sources_of(sum, of(slot), sum.pushes, offset, sources);
  }
  // Looks at the pushes that are not added up yet.
  void look_at_rest(std::uint32_t slot, const ChunkSum& sum, std::uint32_t elements) {
    for (std::uint32_t i = sum.folded; i < sum.pushes; ++i) look_at(slot, i, elements);
  }
  // Calls look(worker, data) for them. REQUIRES: know_workers was called.
  template <typename Look>
  void for_each_in_place(std::uint32_t slot, const ChunkSum& sum, Look look) const {
    for (std::uint32_t i = sum.folded; i < sum.pushes; ++i) {
      const Contribution& push = of(slot)[i];
      if (!push.staged) look(worker_of(slot, i), push.data);
    }
  }
  // Leaves one fp32 sum of all, in a buffer that is there already where one is.
  void merge(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
    add_up(slot, sum, elements, sum.pushes - sum.folded);
  }
  // Gives all buffers back, for the next round.
  void clear(std::uint32_t slot, ChunkSum& sum);

 private:
  void note(std::uint32_t slot, std::uint32_t worker, const ChunkSum& sum) {
    if (workers_.empty()) return;
    workers_[slot * pushers_.most + sum.pushes] = static_cast<std::uint16_t>(worker);
  }
  Contribution* of(std::uint32_t slot) { return &contributions_[slot * pushers_.most]; }
  const Contribution* of(std::uint32_t slot) const { return &contributions_[slot * pushers_.most]; }
  // Of the push that comes now, among its chunk's.
  std::uint32_t place_of(std::uint32_t position, const ChunkSum& sum) const {
    return pushers_.in_order ? position : sum.pushes;
  }
  void fold(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void add_next(std::uint32_t slot, std::byte* wide, const ChunkSum& sum, std::uint32_t elements);
  // Adds a packed push.
  void unpack(const std::byte* push, float* sum, std::uint32_t elements) const;
  void widen(const Contribution& push, std::byte* wide, std::uint32_t elements) const;
  void add_to_sum(const Contribution& push, ChunkSum& sum, std::uint32_t elements);
  void add_scaled(const Contribution& push, float weight, ChunkSum& sum, std::uint32_t elements);
  void fold_in_place(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void fold_many(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void add_up(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements, std::uint32_t count);
  // Of a chunk's contribution.
  std::uint32_t worker_of(std::uint32_t slot, std::uint32_t index) const {
    return workers_.empty() ? index : workers_[slot * pushers_.most + index];
  }
  void look_at(std::uint32_t slot, std::uint32_t index, std::uint32_t elements);
  void replace(ChunkSum& sum, std::byte* wide);
  std::size_t sources_of(const ChunkSum& sum, const Contribution* contributions, std::uint32_t end,
                         std::uint32_t offset, std::span<kernels::Source> sources) const;

  BufferPool& staging_;
  const Pushers pushers_;
  std::vector<Contribution> contributions_;  // [chunk][position]
  std::vector<std::uint16_t> workers_;  // the same: whose it is; empty: its position, or unknown
  ValueWatch* watch_ = nullptr;         // null: nobody looks
};

}  // namespace phub::server
