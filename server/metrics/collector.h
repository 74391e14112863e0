// What the server knows of its jobs, cores, RDMA ports and refused input, as Prometheus metrics.
//
// Read from the counters that exist anyway, when somebody asks; the data path does nothing for it.
// Only live jobs are shown: a name that has ended leaves no series behind. Any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/directory/directory.h"
#include "server/door/control_listener.h"
#include "server/door/tls_keeper.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"

namespace phub::server {

struct MetricsCollector {
  // With a tenant: its own jobs, and how busy the cores are.
  std::vector<prometheus::MetricFamily> families(const std::string& tenant = {}) const;

  // The same in Prometheus' text format.
  std::string text(const std::string& tenant = {}) const;

  JobTable& table;
  const DataPlane& data_plane;
  std::function<std::vector<CertificateExpiry>()> certificates = [] {  // the server's own
    return std::vector<CertificateExpiry>();
  };
  std::function<ControlDoorCounters()> control_door = [] { return ControlDoorCounters(); };
  std::function<std::uint64_t()> log_lines_dropped = [] { return 0; };  // since the start
  const Directory* directory = nullptr;                                 // null: no racks are known
};

}  // namespace phub::server
