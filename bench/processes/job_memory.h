// Asks a server what memory it holds for a job (Admin.InspectJob). The bench's only gRPC.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace phub::bench {

struct JobMemory {
  std::uint64_t bytes = 0;          // parameters, optimizer state and staging
  std::uint64_t staging_bytes = 0;  // of which staging
};

// Blocks for at most a few seconds. Errors: kUnavailable names the server.
Result<JobMemory> job_memory(const std::string& server, const std::string& job);

}  // namespace phub::bench
