// A set in several files (shards): which files they are, and where the samples lie in them.
//
// At set-up, one thread; then read-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {

inline constexpr std::uint64_t kMaxShards = 1ULL << 16U;

enum class ShardKind { kTar, kTfRecord };

// The shards of a split below `folder`, in the order of their names' bytes. Errors: kNotFound when
// there is none; kInvalidArgument for compressed shards, for two splits that would both do
// (test-* and val-*), and where some of NNNNN-of-NNNNN are missing.
Result<std::vector<std::filesystem::path>> shards_of(const std::filesystem::path& folder,
                                                     Split split, ShardKind kind);

struct ShardEntry {
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint16_t shard;
  std::uint16_t label;
};
static_assert(sizeof(ShardEntry) == 16);

class ShardIndex {
 public:
  // Calls `scan` with each file in turn, which adds its samples. Error: also when there is none.
  using Scan = std::function<Status(const SourceFile& file, ShardIndex& index)>;
  static Result<ShardIndex> create(const std::vector<std::filesystem::path>& shards,
                                   const Scan& scan);

  // A sample of the file that is being scanned. Errors: kInvalidArgument above a bound.
  Status add(const SourceFile& file, std::uint64_t offset, std::uint64_t bytes,
             std::uint64_t label);

  std::uint64_t samples() const { return entries_.size(); }
  const ShardEntry& entry(std::uint64_t sample) const { return entries_[sample]; }
  // "0", "1" and so on, up to the largest label.
  const std::vector<std::string>& classes() const { return classes_; }
  // The sample's file, opened. Error: kDataLoss when it has changed.
  Result<SourceFile> file_of(std::uint64_t sample) const;
  // "PATH at offset N"
  std::string name(std::uint64_t sample) const;
  std::uint64_t index_bytes() const;
  // It depends on the shards' paths, sizes and times, and on where samples lie in them.
  std::uint64_t fingerprint() const;
  // It depends on where the samples lie in the shards, and on their labels.
  std::uint64_t content_number() const;

 private:
  struct Shard {
    std::filesystem::path path;
    FileIdentity identity;
  };
  std::vector<Shard> shards_;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> classes_;
};

}  // namespace phub::data
