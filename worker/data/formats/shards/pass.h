// A pass over many items by several threads, which can be stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/status.h"
#include "worker/data/formats/progress.h"

namespace phub::data {

struct PassOptions {
  std::uint32_t threads = 1;  // at least 1
  // Called on the caller's thread, with items in place of samples.
  OnProgress on_progress{};
  // The bytes that were read so far. May be empty.
  std::function<std::uint64_t()> bytes{};
};

// Whether the pass is stopped: what takes long asks it again and again. Any thread.
using IsStopped = std::function<bool()>;
// Does one item, on any thread. kAborted: it was stopped.
using DoItem = std::function<Status(std::size_t item, const IsStopped& is_stopped)>;

// Calls `work` once with each of 0 to items - 1, until one has an error. Returns when no call runs.
// Errors: the first one that was found; kAborted when on_progress stops the pass.
Status pass_over(std::size_t items, const PassOptions& options, const DoItem& work);

}  // namespace phub::data
