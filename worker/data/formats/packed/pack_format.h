// The packed format, version 1: a header, the samples, an index of them, the classes' names.
//
//   0             PackHeader
//   64            each sample: its image's bytes, then its name's, then zeros up to 8 bytes
//   index_offset  a PackEntry for each sample, in their order
//   names_offset  for each class the length of its name in 2 bytes, and the name
//
// Numbers are little-endian. A CRC32C protects the header, the index, the names and each sample.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/crc32c.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data {

static_assert(std::endian::native == std::endian::little, "structs are written as they lie");

inline constexpr std::string_view kPackMagic = "PHUBPACK";
inline constexpr std::uint32_t kPackVersion = 1;
inline constexpr std::uint64_t kPackAlignment = 8;
inline constexpr std::size_t kMaxClassNameBytes = 1024;
// Longer names of samples are cut off.
inline constexpr std::size_t kMaxSampleNameBytes = 1024;

struct PackHeader {
  char magic[8] = {};
  std::uint32_t version = kPackVersion;
  std::uint32_t classes = 0;
  std::uint64_t samples = 0;
  std::uint64_t index_offset = 0;
  std::uint64_t names_offset = 0;
  std::uint64_t file_bytes = 0;
  std::uint32_t index_crc = 0;
  std::uint32_t names_crc = 0;
  std::uint32_t reserved = 0;
  std::uint32_t header_crc = 0;  // of the bytes before
};
static_assert(sizeof(PackHeader) == 64);

struct PackEntry {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t crc = 0;  // of the image and the name
  std::uint16_t label = 0;
  std::uint16_t name_bytes = 0;
  std::uint32_t reserved = 0;

  std::uint64_t content_bytes() const { return std::uint64_t{bytes} + name_bytes; }
  // Where the next sample begins.
  std::uint64_t end() const {
    return (offset + content_bytes() + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
  }
};
static_assert(sizeof(PackEntry) == 24);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

inline std::uint32_t crc_of(const PackHeader& header) {
  return crc32c(bytes_of(header).first(offsetof(PackHeader, header_crc)));
}

// Whether an entry is one that a writer may have made behind `begin`.
inline bool is_right(const PackEntry& entry, std::uint64_t begin, std::uint64_t classes) {
  return entry.offset == begin && entry.bytes > 0 && entry.bytes <= kMaxSampleBytes &&
         entry.name_bytes <= kMaxSampleNameBytes && entry.label < classes && entry.reserved == 0;
}

// The classes' names as the file has them. Error: kInvalidArgument names the bound.
Result<std::string> pack_names(const std::vector<std::string>& classes);

}  // namespace phub::data
