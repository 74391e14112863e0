#include "worker/data/formats/shards/kept_index.h"

#include <bit>
#include <cstring>

#include "worker/data/formats/sample_set.h"

namespace phub::data {
namespace {

static_assert(std::endian::native == std::endian::little, "structs are written as they lie");

// The number of entries comes first, so that a shard without samples is kept, too.
using KeptCount = std::uint64_t;

}  // namespace

std::vector<std::uint8_t> kept_form(std::span<const ShardEntry> entries) {
  const KeptCount count = entries.size();
  std::vector<std::uint8_t> bytes(sizeof(count) + entries.size_bytes());
  std::memcpy(bytes.data(), &count, sizeof(count));
  if (count > 0) std::memcpy(bytes.data() + sizeof(count), entries.data(), entries.size_bytes());
  return bytes;
}

std::optional<std::vector<ShardEntry>> parse_kept(std::span<const std::uint8_t> bytes,
                                                  std::uint64_t file_bytes) {
  KeptCount count = 0;
  if (bytes.size() < sizeof(count)) return std::nullopt;
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes = bytes.subspan(sizeof(count));
  if (count != bytes.size() / sizeof(ShardEntry) || bytes.size() % sizeof(ShardEntry) != 0) {
    return std::nullopt;
  }
  std::vector<ShardEntry> entries(count);
  if (count > 0) std::memcpy(entries.data(), bytes.data(), bytes.size());
  std::uint64_t begin = 0;
  for (const ShardEntry& entry : entries) {
    if (entry.bytes == 0 || entry.bytes > kMaxSampleBytes || entry.offset < begin ||
        entry.offset > file_bytes || entry.bytes > file_bytes - entry.offset) {
      return std::nullopt;
    }
    begin = entry.offset + entry.bytes;
  }
  return entries;
}

}  // namespace phub::data
