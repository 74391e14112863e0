// The samples of one shard as bytes that outlive a run. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/formats/shards/shard_scan.h"

namespace phub::data {

// Other rules of what a sample is have another number: what was kept by the old ones is not found.
inline constexpr std::uint64_t kKeptIndexVersion = 1;

std::vector<std::uint8_t> kept_form(std::span<const ShardEntry> entries);

// Nothing of what is no such form, or of samples that do not lie in a file of `file_bytes` bytes
// one behind the other.
std::optional<std::vector<ShardEntry>> parse_kept(std::span<const std::uint8_t> bytes,
                                                  std::uint64_t file_bytes);

}  // namespace phub::data
