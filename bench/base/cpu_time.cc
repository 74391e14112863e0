#include "bench/base/cpu_time.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace phub::bench {

Result<CpuTime> cpu_time(std::span<const std::uint32_t> cpus) {
  // cpuN user nice system idle iowait irq softirq steal (proc(5)); what follows is in user already.
  constexpr int kFields = 8;
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  std::ifstream file("/proc/stat");
  CpuTime sum;
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool is_wanted = std::any_of(cpus.begin(), cpus.end(), [&](std::uint32_t cpu) {
      return name == "cpu" + std::to_string(cpu);
    });
    if (!is_wanted) continue;
    found = true;
    std::uint64_t ticks = 0;
    for (int field = 0; field < kFields && words >> ticks; ++field) {
      sum.total += ticks;
      if (field != kIdle && field != kIoWait) sum.busy += ticks;
    }
  }
  if (!found) return Status(Code::kUnavailable, "/proc/stat names none of the CPUs");
  return sum;
}

}  // namespace phub::bench
