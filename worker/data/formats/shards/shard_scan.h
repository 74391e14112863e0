// A pass over all shards of a set, which finds where the samples lie in them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/data/formats/byte_source.h"
#include "worker/data/formats/index_store.h"
#include "worker/data/formats/shards/pass.h"
#include "worker/data/formats/shards/shard.h"

namespace phub::data {

struct ShardEntry {
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint16_t shard;
  std::uint16_t label;
};
static_assert(sizeof(ShardEntry) == 16);

// Takes the samples of one shard while its file is read. One thread.
class ShardSamples {
 public:
  // `all` counts the samples of all shards.
  ShardSamples(std::size_t shard, std::atomic<std::uint64_t>& all) : shard_(shard), all_(&all) {}

  // Error: kInvalidArgument above a bound.
  Status add(const ByteSource& file, std::uint64_t offset, std::uint64_t bytes,
             std::uint64_t label);

  const std::vector<ShardEntry>& entries() const { return entries_; }
  std::vector<ShardEntry> take() { return std::move(entries_); }

 private:
  std::size_t shard_;
  std::atomic<std::uint64_t>* all_;
  std::vector<ShardEntry> entries_;
};

// Finds the samples of a file. Any thread.
using ScanShard = std::function<Status(const ByteSource& file, ShardSamples& into)>;

struct ScanOptions {
  std::uint32_t threads = 1;    // at least 1
  OnProgress on_progress{};     // with shards in place of samples
  IndexStore* store = nullptr;  // has what an earlier pass found, and keeps what this one does
};

// The samples of all shards, in the order of these. Errors: those of pass_over.
Result<std::vector<ShardEntry>> scan_shards(const Shards& shards, const ScanShard& scan,
                                            const ScanOptions& options);

}  // namespace phub::data
