#include "server/metrics/exporter.h"

#include <prometheus/exposer.h>

#include <exception>

#include "common/address.h"

namespace phub::server {

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::create(
    const std::string& address, std::shared_ptr<MetricsCollector> collector) {
  PHUB_ASSIGN_OR_RETURN(Address parsed, parse_address(address));
  std::unique_ptr<MetricsExporter> exporter(new MetricsExporter());
  exporter->collector_ = std::move(collector);
  try {
    exporter->exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
    parsed.port = static_cast<std::uint16_t>(exporter->exposer_->GetListeningPorts().at(0));
  } catch (const std::exception&) {
    return Status(Code::kAlreadyExists, "metrics_address " + address +
                                            " cannot be listened at: is it an IP address of this "
                                            "host, and is the port free?");
  }
  exporter->exposer_->RegisterCollectable(exporter->collector_);
  exporter->address_ = to_string(parsed);
  return exporter;
}

MetricsExporter::~MetricsExporter() = default;

}  // namespace phub::server
