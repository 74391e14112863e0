#include "worker/cli/options/meeting.h"

#include <string>

#include "worker/cli/options/run_options.h"

namespace phub {

ClientOptions meeting_of(const WorkerConfig& config, std::string_view suffix) {
  ClientOptions options = client_of(config);
  // Only who the workers are, and how their racks are joined.
  const JobSpec& job = options.job;
  options.job = {.name = job.name + std::string(suffix),
                 .workers = job.workers,
                 .deterministic = job.deterministic,
                 .chunk_bytes = job.chunk_bytes,
                 .racks = job.racks,
                 .rack_shape = job.rack_shape,
                 .rack_hybrid_bytes = job.rack_hybrid_bytes,
                 .tcp_streams = job.tcp_streams};
  options.compress = {};
  return options;
}

}  // namespace phub
