// Adds up the pushes of each chunk, in the order of the workers or in that of arrival.
//
// A push that the transport staged (tcp) is folded into the chunk's sum while it is in the cache.
// The buffer of the first one becomes the sum, so it is not copied. A push that stays in the
// worker's memory (shm) is left there; `sources` returns it after the chunk's last push. Data of a
// Shard; its core's thread only. Nothing grows after set-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/encoding.h"
#include "kernels/reduce.h"
#include "server/chunks/chunk/shard_chunk.h"
#include "server/chunks/pushes/pending_pushes.h"
#include "server/chunks/pushes/value_watch.h"
#include "server/job/buffer_pool.h"
#include "server/job/layout.h"

namespace phub::server {

// The members whose pushes are added, and the type of these pushes.
struct Pushers {
  std::uint32_t most = 1;  // members that may push a chunk
  DataType type = DataType::kFloat32;
  bool in_order = true;  // pushes are added by position; else by arrival
  Encoding encoding = Encoding::kDense;
};

class PushSums {
 public:
  PushSums(const Pushers& pushers, std::size_t chunks, BufferPool& staging)
      : staging_(staging), pushers_(pushers), pushes_(chunks, pushers.most) {}

  // Makes `watch` check what is added. It outlives this. REQUIRES: nothing has been added, and
  // pushes are added by add_read.
  void watch(ValueWatch& watch) {
    watch_ = &watch;
    know_workers();
  }
  // Stores from now on which worker made each push. REQUIRES: pushes are added by add_read.
  void know_workers() {
    if (!pushers_.in_order) pushes_.know_workers();  // else a push's place is its worker
  }

  // Adds a push. True: it is the last one of the round. REQUIRES: it is the member's first one in
  // this round.
  bool add(std::uint32_t slot, std::uint32_t position, const Contribution& push, ChunkSum& sum,
           std::uint32_t elements);
  // Does the same for a job whose encoding is not dense. Pushes that are next in order are added to
  // the sum at once, staged or not, because a packed push cannot be a source of an update.
  bool add_folded(std::uint32_t slot, std::uint32_t position, const Contribution& push,
                  ChunkSum& sum, std::uint32_t elements);

  // Does the same for a push that a reader has read: stores its worker, if that is asked for, and
  // adds it as the job's encoding requires.
  bool add_read(const Push& push, const Contribution& own, ChunkSum& sum, std::uint32_t elements) {
    pushes_.note(push.slot, sum.pushes, push.worker);
    return pushers_.encoding == Encoding::kDense
               ? add(push.slot, push.worker, own, sum, elements)
               : add_folded(push.slot, push.worker, own, sum, elements);
  }

  // Multiplies a push, packed or not, by `weight` and adds it. add_weighted and fold_all REQUIRE
  // that pushes are added in order of arrival, and by these two only.
  void add_weighted(std::uint32_t slot, const Contribution& push, float weight, ChunkSum& sum,
                    std::uint32_t elements);
  // Adds all pushes that are in place, because their workers may be gone before the round is over.
  void fold_all(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
    if (sum.folded < sum.pushes) add_up(slot, sum, elements, sum.pushes - sum.folded);
  }

  // ---- These REQUIRE the round's last push ----
  // Writes the sum and the pushes that are not added to it yet, from element `offset` of the chunk
  // on, to `sources`. Returns how many they are.
  std::size_t sources(std::uint32_t slot, const ChunkSum& sum, std::uint32_t offset,
                      std::span<kernels::Source> sources) const {
    return sources_of(sum, pushes_.of(slot), sum.pushes, offset, sources);
  }
  // Checks the values of the pushes that are not added up yet. REQUIRES: watch was called.
  void look_at_rest(std::uint32_t slot, const ChunkSum& sum, std::uint32_t elements) {
    for (std::uint32_t i = sum.folded; i < sum.pushes; ++i) look_at(slot, i, elements);
  }
  // Calls look(worker, data) for those of them that are in place. REQUIRES: know_workers was
  // called.
  template <typename Look>
  void for_each_in_place(std::uint32_t slot, const ChunkSum& sum, Look look) const {
    for (std::uint32_t i = sum.folded; i < sum.pushes; ++i) {
      const Contribution& push = pushes_.of(slot)[i];
      if (!push.staged) look(pushes_.worker_of(slot, i), push.data);
    }
  }
  // Leaves one fp32 sum of all pushes, in a buffer of the staging.
  void merge(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements) {
    add_up(slot, sum, elements, sum.pushes - sum.folded);
  }
  // Gives all of the chunk's buffers back, and begins the next round.
  void clear(std::uint32_t slot, ChunkSum& sum);

 private:
  // Returns the place of the push that comes now, among those of its chunk.
  std::uint32_t place_of(std::uint32_t position, const ChunkSum& sum) const {
    return pushers_.in_order ? position : sum.pushes;
  }
  void fold(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void add_next(std::uint32_t slot, std::byte* wide, const ChunkSum& sum, std::uint32_t elements);
  void add_to_sum(const Contribution& push, ChunkSum& sum, std::uint32_t elements);
  void add_scaled(const Contribution& push, float weight, ChunkSum& sum, std::uint32_t elements);
  void fold_in_place(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void fold_many(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements);
  void add_up(std::uint32_t slot, ChunkSum& sum, std::uint32_t elements, std::uint32_t count);
  void look_at(std::uint32_t slot, std::uint32_t index, std::uint32_t elements);
  void replace(ChunkSum& sum, std::byte* wide);
  std::size_t sources_of(const ChunkSum& sum, const Contribution* contributions, std::uint32_t end,
                         std::uint32_t offset, std::span<kernels::Source> sources) const;

  BufferPool& staging_;
  const Pushers pushers_;
  PendingPushes pushes_;
  ValueWatch* watch_ = nullptr;  // null: values are not checked
};

}  // namespace phub::server
