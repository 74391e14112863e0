// Memory that a peer made and shares by a descriptor, mapped so that nothing the peer does to it
// later can cost the reader more than that peer.
//
// It has exactly the size that was agreed on, its pages are all there, and nobody can take one
// away: it is sealed against another size and, for the peer's own mapping is all that may write to
// it from now on, against holes (Linux refuses to punch them through F_SEAL_FUTURE_WRITE). So
// reading it allocates nothing on the reader's account. Pages of the machine's huge pool are
// refused: one that the pool cannot give is a fault at the reader. What can still fail, a broken
// memory cell, is guarded (fault_guard.h). Control threads.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/status.h"
#include "common/memory/memory.h"

namespace phub {

// kRead: the peer has sealed it (SharedMemory::commit). kReadWrite: it is sealed here, once it is
// mapped.
enum class PeerAccess : std::uint8_t { kRead, kReadWrite };

// Exactly `bytes` of it. Errors: kInvalidArgument names what the memory lacks, with the figures.
Result<std::unique_ptr<Mapping>> map_peer_memory(int fd, std::size_t bytes, PeerAccess access);

}  // namespace phub
