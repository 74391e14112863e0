// Reads what this rack's workers push: lengths, checksums, encodings, values that are not finite.
//
// The lanes of a core ask it how long a push may be. The shard has it read all initial pushes, and
// each later push of a job that is not plain. Data of a Shard; its core's thread only. Nothing
// allocates after it is made.
#pragma once

#include <optional>
#include <vector>

#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/pushes/push_checks.h"
#include "server/chunks/pushes/push_sums.h"
#include "server/chunks/pushes/value_watch.h"

namespace phub::server {

class WorkerReader {
 public:
  // The last three outlive it.
  WorkerReader(const JobLayout& layout, std::uint32_t core, const std::vector<ShardChunk>& chunks,
               const ChunkParameters& parameters, BufferPool& staging);

  // The sums to which workers' pushes are added. Before anything is pushed.
  void read_for(PushSums& sums);

  // Whether a push without a checksum may have `bytes` bytes. A packed push may be shorter; its
  // content is checked after it has arrived. REQUIRES: bytes > 0.
  bool may_push(std::uint32_t slot, std::uint32_t bytes) const {
    return may_push(slot < unchecked_, slot, bytes);
  }
  // Like may_push, for a push with a checksum.
  bool may_push_checked(std::uint32_t slot, std::uint32_t bytes) const {
    return may_push(checks_ && slot < chunks_.size(), slot, bytes);
  }
  // Whether a push, as it arrived, is as long as the chunk's pushes may be.
  bool has_right_length(const Push& push, const ShardChunk& chunk) const;

  // kAccepted: `own` can be added. Else what is wrong with the push; its buffer is given back. The
  // job is to end after kCorrupt and kForbidden.
  PushResult read(Push& push, const ShardChunk& chunk, Contribution& own);
  // Like read, for initial parameters, which are never packed. `holds`: the chunk takes these.
  PushResult read_initial(Push& push, const ShardChunk& chunk, bool holds);
  // The chunk's last push is there: looks at what is about to be read in place. False: the job is
  // to end.
  bool read_rest(std::uint32_t slot, const PushSums& sums, const ChunkSum& sum);

  // A push or a sum had a value for which the job is to end.
  bool ends_job() const { return watch_ && watch_->ends_job(); }
  // Pushes that are not packed are looked at with their sum, not when they come.
  bool looks_at_sums() const { return watch_ && !looks_at_once_; }

  // Null: the job does not watch values.
  ValueWatch* watch() { return watch_ ? &*watch_ : nullptr; }
  const ValueWatch* watch() const { return watch_ ? &*watch_ : nullptr; }
  // Null: the job has no checksums.
  PushChecks* checks() { return checks_ ? &*checks_ : nullptr; }
  const PushChecks* checks() const { return checks_ ? &*checks_ : nullptr; }

 private:
  bool may_push(bool is_asked, std::uint32_t slot, std::uint32_t bytes) const {
    const std::uint32_t dense = is_asked ? parameters_.bytes(chunks_[slot].place) : 0;
    return bytes == dense || (encoding_ != Encoding::kDense && bytes < dense);
  }
  bool may_be_packed(std::uint32_t bytes, const ShardChunk& chunk) const;
  PushResult check(Push& push, const ShardChunk& chunk);
  PushResult parse(const Push& push, std::uint32_t elements, Contribution& own);
  void look_at(const Push& push, const Contribution& own, std::size_t elements);

  const std::vector<ShardChunk>& chunks_;
  const ChunkParameters& parameters_;
  BufferPool& staging_;
  const Encoding encoding_;
  const bool stays_in_place_;      // what is not staged is read where it is, with the last push
  const bool looks_at_once_;       // at values: when they come, not with their sum
  const std::uint32_t unchecked_;  // slots, the first, whose pushes have no checksum: all or none
  std::optional<ValueWatch> watch_;
  std::optional<PushChecks> checks_;
};

}  // namespace phub::server
