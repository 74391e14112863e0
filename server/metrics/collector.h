// What the server knows of its jobs, cores, RDMA ports and refused input, as Prometheus metrics.
//
// Read from the counters that exist anyway, when somebody asks; the data path does nothing for it.
// Only live jobs are shown: a name that has ended leaves no series behind. Any thread.
#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/data_plane.h"
#include "server/job_table.h"
#include "server/tls_keeper.h"

namespace phub::server {

class MetricsCollector final : public prometheus::Collectable {
 public:
  using Certificates = std::function<std::vector<CertificateExpiry>()>;

  // All outlive this. `certificates`: the server's own; left out: none.
  MetricsCollector(JobTable& table, const DataPlane& data_plane, Certificates certificates = {})
      : table_(table), data_plane_(data_plane), certificates_(std::move(certificates)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

  // In Prometheus' text format. With a tenant: its own jobs, and how busy the cores are.
  std::string text(const std::string& tenant = {}) const;

 private:
  std::vector<prometheus::MetricFamily> families_of(const std::string& tenant) const;

  JobTable& table_;
  const DataPlane& data_plane_;
  const Certificates certificates_;
};

}  // namespace phub::server
