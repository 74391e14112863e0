// Memory that another process made and that may fail under its reader: a page that cannot be
// brought in (a broken memory cell, a disk, a file that became shorter) is a SIGBUS, which would
// end the whole process for the fault of one peer.
//
// The handler, which main installs once, puts a page of zeros in place of the one that failed and
// marks the range; the reader goes on with zeros, and its owner, who asks has_failed(), gives up
// that peer. Faults anywhere else end the process as before. The one piece of global state that
// there is, since a signal's handler is one; the handler itself takes no lock and allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"

namespace phub {

// By main, before other threads are started. Error: kInternal, what the system says.
Status install_fault_guard();

// How many guarded pages have failed so far in this process. Any thread; a load.
std::uint32_t guarded_faults();

// A mapped range that is guarded as long as this lives: give it up before the mapping. Made and
// destroyed by control threads; has_failed: any thread.
class GuardedRange {
 public:
  GuardedRange() = default;  // guards nothing
  // Error: kResourceExhausted when too many are guarded already.
  static Result<GuardedRange> create(const void* data, std::size_t bytes, bool writable);
  ~GuardedRange();
  GuardedRange(GuardedRange&& other) noexcept;
  GuardedRange& operator=(GuardedRange&& other) noexcept;

  bool has_failed() const;

 private:
  explicit GuardedRange(std::uint32_t slot) : slot_(slot) {}
  static constexpr std::uint32_t kNone = ~0U;
  std::uint32_t slot_ = kNone;
};

}  // namespace phub
