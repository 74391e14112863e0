#include "server/metrics/families.h"

#include <algorithm>

namespace phub::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void Families::add(const char* name, const char* help, MetricType type, Labels labels,
                   double value) {
  ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  add(name, help, type, std::move(labels), std::move(metric));
}

void Families::add(const char* name, const char* help, Labels labels,
                   const LatencyCounts& latencies) {
  ClientMetric metric;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < LatencyCounts::kBounds; ++i) {
    count += latencies.counts[i];
    metric.histogram.bucket.push_back(
        {.cumulative_count = count, .upper_bound = LatencyCounts::bound_seconds(i)});
  }
  metric.histogram.sample_count = count + latencies.counts[LatencyCounts::kBounds];
  metric.histogram.sample_sum = static_cast<double>(latencies.sum_nanoseconds) * 1e-9;
  add(name, help, MetricType::Histogram, std::move(labels), std::move(metric));
}

void Families::add(const char* name, const char* help, MetricType type, Labels labels,
                   ClientMetric metric) {
  metric.label = std::move(labels);
  const auto found = std::find_if(
      all_.begin(), all_.end(), [name](const MetricFamily& family) { return family.name == name; });
  if (found != all_.end()) return found->metric.push_back(std::move(metric));
  all_.push_back({name, help, type, {std::move(metric)}});
}

}  // namespace phub::server
