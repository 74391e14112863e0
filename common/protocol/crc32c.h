// CRC-32C (Castagnoli), as iSCSI, ext4 and RDMA's own packets have it: every flip of up to three
// bits of a chunk is found, and of any other change all but one in 2^32.
//
// ISA-L chooses the code by the processor at the first call: with carry-less multiplication some
// bytes a cycle, with the crc32 instruction alone, or by a table. Pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace phub {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace phub
