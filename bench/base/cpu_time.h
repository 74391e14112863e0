// How busy CPUs are, of all processes.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"

namespace phub::bench {

// Ticks of the system's clock since the machine started.
struct CpuTime {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;

  // The share of the time since `before` in which the CPUs worked; 0 if none has passed.
  double busy_since(const CpuTime& before) const {
    if (total <= before.total) return 0;
    return static_cast<double>(busy - before.busy) / static_cast<double>(total - before.total);
  }
};

// The sum over these CPUs, from /proc/stat.
Result<CpuTime> cpu_time(std::span<const std::uint32_t> cpus);

}  // namespace phub::bench
