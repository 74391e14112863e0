// What a store has on the disk: a folder with three files.
//
//   about   one line for people: where the samples come from
//   index   StoreHeader, then a StoreEntry for each sample; zeros: it is not kept
//   data    the kept contents, in the order in which they came, with gaps
//
// Numbers are little-endian. An entry is written when its content is, and a checksum says whether
// it was written whole.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/protocol/crc32c.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data::cache {

static_assert(std::endian::native == std::endian::little, "structs are written as they lie");

inline constexpr std::string_view kStoreMagic = "PHUBCACH";
inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr const char *kAboutFile = "about", *kIndexFile = "index", *kDataFile = "data";
inline constexpr const char* kPartialEnding = ".partial";  // of a store that is being made

struct StoreHeader {
  char magic[8] = {};
  std::uint32_t version = kStoreVersion;
  std::uint32_t crc = 0;  // of the two numbers behind it
  std::uint64_t samples = 0;
  std::uint64_t number = 0;  // of what is kept: StoreSubject

  std::uint32_t right_crc() const {
    return crc32c(std::as_bytes(std::span<const std::uint64_t>(&samples, 2)));
  }
};
static_assert(sizeof(StoreHeader) == 32 && offsetof(StoreHeader, number) == 24);

struct StoreEntry {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t content_crc = 0;
  std::uint32_t reserved = 0;
  std::uint32_t crc = 0;  // of the bytes before and the sample's number

  std::uint32_t right_crc(std::uint64_t sample) const {
    StoreEntry numbered = *this;
    numbered.offset ^= sample << 32U;
    return crc32c(std::as_bytes(std::span<const StoreEntry, 1>(&numbered, 1))
                      .first(offsetof(StoreEntry, crc)));
  }
};
static_assert(sizeof(StoreEntry) == 24);

// Whether it is of that sample, and a writer may have made it.
inline bool is_right(const StoreEntry& entry, std::uint64_t sample) {
  return entry.bytes > 0 && entry.bytes <= kMaxSampleBytes && entry.crc == entry.right_crc(sample);
}

constexpr std::uint64_t place_of(std::uint64_t sample) {
  return sizeof(StoreHeader) + sample * sizeof(StoreEntry);
}

}  // namespace phub::data::cache
