// How busy links and CPUs were between two moments: the proof that links bound a round, not CPUs.
//
// Belongs to the bench's main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/cpu_time.h"
#include "bench/rack/testbed/fabric.h"
#include "bench/rack/testbed/testbed.h"
#include "common/base/status.h"

namespace phub::bench {

struct LinkBytes {
  std::uint64_t up = 0;
  std::uint64_t down = 0;
};

// All since the machine started, or the links were made.
struct RackSample {
  std::chrono::steady_clock::time_point when;
  std::vector<LinkBytes> links;  // frames with their headers, in the order of the fabric's links
  std::vector<CpuTime> cpus;     // each CPU that we may use, by its number, of all processes
  double own_seconds = 0;        // CPU time of this process' children: the servers and workers
};

Result<RackSample> take_sample(const Fabric& fabric, const Testbed& testbed,
                               const RackTools& tools);

// Sums over several intervals.
class RackLoad {
 public:
  explicit RackLoad(const Fabric& fabric) : links_(fabric.links.size()) {}
  void add(const RackSample& before, const RackSample& after);

  const std::vector<LinkBytes>& links() const { return links_; }
  double seconds() const { return seconds_; }
  // Shares, 0 to 1.
  double link_busy(const RackLink& link, std::uint64_t bytes) const;
  std::vector<double> cpus_busy() const;
  double machine_busy() const;
  double own_busy() const;  // of machine_busy, the part of servers and workers

 private:
  std::vector<LinkBytes> links_;
  std::vector<CpuTime> cpus_;
  double seconds_ = 0;
  double own_seconds_ = 0;
};

// What `ip -s -j link show` in the namespace of the switches says of each link.
// Error: kInternal: it is not understood, or a link is missing.
Result<std::vector<LinkBytes>> parse_link_bytes(std::string_view json, const Fabric& fabric);

}  // namespace phub::bench
