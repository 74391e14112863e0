#include "common/protocol/crc32c.h"

#include <isa-l/crc.h>

namespace phub {

// Sizes of writes and chunks are far below what an int holds. ISA-L only reads.
std::uint32_t crc32c(std::span<const std::byte> bytes) {
  auto* const data =
      reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));  // NOLINT
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0U);
}

}  // namespace phub
