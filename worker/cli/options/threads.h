// How many threads a worker takes for compute and for its input, where its configuration does not
// say.
//
// A function of the configuration, this process's CPUs and LOCAL_WORLD_SIZE.
#pragma once

#include <cstdint>

#include "proto/config.pb.h"

namespace phub {

// train.threads, or where that is 0: this process's share of the CPUs that it may use.
std::uint32_t threads_of(const WorkerConfig& config);

// The same of `cpus` usable ones and `local_workers` on this host; 0: unknown.
std::uint32_t threads_of(const WorkerConfig& config, std::uint32_t cpus,
                         std::uint32_t local_workers);

// data.threads, or where that is 0: for encoded images what compute leaves of this process's share
// of the CPUs, at least one; for images in memory none.
std::uint32_t feed_threads_of(const WorkerConfig& config);
std::uint32_t feed_threads_of(const WorkerConfig& config, std::uint32_t cpus,
                              std::uint32_t local_workers);

}  // namespace phub
