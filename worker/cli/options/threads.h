// How many threads a worker takes for compute and for its input, where its configuration does not
// say, and on which CPUs its input runs.
//
// Functions of the configuration, this process's CPUs, LOCAL_WORLD_SIZE and LOCAL_RANK.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/affinity.h"
#include "proto/config.pb.h"

namespace phub {

// train.threads, or where that is 0: this process's share of the CPUs that it may use.
std::uint32_t threads_of(const WorkerConfig& config);

// The same of `cpus` usable ones and `local_workers` on this host; 0: unknown.
std::uint32_t threads_of(const WorkerConfig& config, std::uint32_t cpus,
                         std::uint32_t local_workers);

// data.threads, or where that is 0: for encoded images what compute leaves of this process's share
// of the CPUs, at least one, or eight where other workers are asked for images; for images in
// memory none.
std::uint32_t feed_threads_of(const WorkerConfig& config);
std::uint32_t feed_threads_of(const WorkerConfig& config, std::uint32_t cpus,
                              std::uint32_t local_workers);

// The CPUs of the threads of feed_threads_of: those of this worker's share that compute and servers
// on this host do not have. Empty: the threads run anywhere. That is so where fewer than two CPUs
// are left, where a quota gives less than the CPUs' time, or where it is unknown which share is
// this worker's.
std::vector<std::uint32_t> feed_cpus_of(const WorkerConfig& config);

// The workers on this host, as phubrun and torchrun tell them.
struct LocalWorkers {
  std::uint32_t workers = 0;                // 0: unknown
  std::optional<std::uint32_t> index = {};  // of this one among them
};
// The same of the CPUs `usable`, core by core, of which this process has the time of `cpus`.
std::vector<std::uint32_t> feed_cpus_of(const WorkerConfig& config,
                                        std::span<const UsableCpu> usable, std::uint32_t cpus,
                                        const LocalWorkers& local);

}  // namespace phub
