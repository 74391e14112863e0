// The peer of "phub-bench transport": linux-rdma's perftest, two of its processes on this machine.
#pragma once

#include <string>

#include "bench/processes/work.h"
#include "common/base/status.h"

namespace phub::bench {

struct PerftestRun {
  std::string server_device;
  std::string client_device;
  std::uint32_t gid_index = 0;
  std::uint32_t bytes = 0;
  std::uint64_t iterations = 0;
  std::uint32_t depth = 128;
};

// ib_write_bw's average, in bytes per second. Error: kNotFound without perftest.
Result<double> perftest_bandwidth(const PerftestRun& run, Places& places);
// Half a round trip in seconds, typical: ib_write_lat, which writes without immediate and polls
// memory, and ib_send_lat, which like an immediate takes a completion on each side.
Result<double> perftest_write_latency(const PerftestRun& run, Places& places);
Result<double> perftest_send_latency(const PerftestRun& run, Places& places);

}  // namespace phub::bench
