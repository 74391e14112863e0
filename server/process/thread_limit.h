// Whether the process can have the threads that a server needs.
//
// Libraries that cannot make a thread in the middle of their start wait for ever, or end the
// process; so all are tried before the first library starts.
#pragma once

#include <cstddef>

#include "common/base/status.h"

namespace phub::server {

// What a server with so many pinned cores needs on a machine with so many processors: its own
// threads and those of its libraries.
std::size_t threads_wanted(std::size_t cores, std::size_t processors);

// Makes so many threads, which end again before it returns. Error: kResourceExhausted, with figures
// and the cure. No other thread may be made meanwhile.
Status check_threads(std::size_t count);

}  // namespace phub::server
