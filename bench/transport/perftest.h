// The peer of "phub-bench transport": linux-rdma's perftest, two of its processes on this machine.
#pragma once

#include <array>
#include <string>

#include "bench/processes/work.h"
#include "common/base/status.h"

namespace phub::bench {

// Its programs that are run: one for bandwidth, two for latency. ib_write_lat writes without
// immediate and polls memory; ib_send_lat, like an immediate, takes a completion on each side.
inline constexpr std::array kPerftests = {"ib_write_bw", "ib_write_lat", "ib_send_lat"};

struct PerftestRun {
  std::string program = {};
  bool is_latency = false;
  std::string server_device;
  std::string client_device;
  std::uint32_t gid_index = 0;
  std::uint32_t bytes = 0;
  std::uint64_t iterations = 0;
};

// The average bandwidth in bytes per second, or half a round trip in seconds, typical. Error:
// kNotFound without perftest.
Result<double> run_perftest(const PerftestRun& run, Places& places);

}  // namespace phub::bench
