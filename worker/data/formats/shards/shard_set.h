// A set in several files: an index of 16 bytes a sample, and what reads one.
//
// Read-only once it is open; any thread may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "worker/data/formats/open.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/shards/shard_names.h"
#include "worker/data/formats/shards/shard_scan.h"

namespace phub::data {

// What a kind of shard has in it. Any thread.
class ShardFormat {
 public:
  virtual ~ShardFormat() = default;

  // Adds what the places of samples depend on, beside the file.
  virtual void add_to(Fingerprint& number) const = 0;
  // Adds the samples of a file. Errors name the file and the offset.
  virtual Status scan(const ByteSource& file, ShardSamples& into) const = 0;
  // The image of a sample, in `buffer`. Errors: those of SampleSet::read.
  virtual Result<std::span<const std::uint8_t>> read(const ByteSource& file,
                                                     const ShardEntry& entry,
                                                     std::vector<std::uint8_t>& buffer) const = 0;
};

// Finds the shards of the split and all their samples. Errors: also when there is none.
Result<std::unique_ptr<SampleSet>> open_shard_set(const std::filesystem::path& path, Split split,
                                                  ShardKind kind,
                                                  std::unique_ptr<const ShardFormat> format,
                                                  const OpenOptions& options);

}  // namespace phub::data
