// Whether this machine and this server have room for one more job.
//
// Reads /proc; for control threads.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace phub::server {

// What the kernel could give without swapping, in bytes; with `reserved_pages` also the free pages
// of the huge page pool, which RDMA memory comes from. The largest number when it does not say.
std::uint64_t available_bytes(bool reserved_pages, const std::string& meminfo = "/proc/meminfo");

struct Room {
  std::uint64_t limit_bytes = 0;      // memory_limit_mib; 0: none
  std::uint64_t admitted_bytes = 0;   // the most that the jobs here pin, and copies under way
  std::uint64_t untouched_bytes = 0;  // of them, what they have not taken from the machine yet
  std::uint64_t available_bytes = 0;
};

// Errors: kResourceExhausted with what is asked for, what is taken and what there is.
// `what`: that wants them, for the message.
Status admit(std::uint64_t wanted_bytes, const Room& room, const std::string& what = "the job");

}  // namespace phub::server
