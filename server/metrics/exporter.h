// Serves GET /metrics for Prometheus: plain HTTP, no authentication, reading only.
//
// Has threads of its own; none of the data path's. Created and destroyed by a control thread.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/metrics/collector.h"

namespace prometheus {
class Exposer;
}

namespace phub::server {

class MetricsExporter {
 public:
  // `address`: HOST:PORT, an IP address; port 0 takes a free one. Error: kAlreadyExists when it
  // cannot be listened at.
  static Result<std::unique_ptr<MetricsExporter>> create(
      const std::string& address, std::shared_ptr<MetricsCollector> collector);
  ~MetricsExporter();
  MetricsExporter(const MetricsExporter&) = delete;
  MetricsExporter& operator=(const MetricsExporter&) = delete;

  const std::string& address() const { return address_; }

 private:
  MetricsExporter() = default;

  std::string address_;
  std::shared_ptr<MetricsCollector> collector_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace phub::server
