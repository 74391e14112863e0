// Families of metrics as they are filled, and tables of metrics that are of one subject.
//
// One thread.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/job/latency.h"

namespace phub::server {

inline constexpr auto kCounter = prometheus::MetricType::Counter;
inline constexpr auto kGauge = prometheus::MetricType::Gauge;

using Labels = std::vector<prometheus::ClientMetric::Label>;

// In the order of their first series.
class Families {
 public:
  // A counter or a gauge.
  void add(const char* name, const char* help, prometheus::MetricType type, Labels labels,
           double value);
  // A histogram.
  void add(const char* name, const char* help, Labels labels, const LatencyCounts& latencies);
  std::vector<prometheus::MetricFamily> take() { return std::move(all_); }

 private:
  void add(const char* name, const char* help, prometheus::MetricType type, Labels labels,
           prometheus::ClientMetric metric);

  std::vector<prometheus::MetricFamily> all_;
};

// A row of a table: one metric of every Subject.
template <typename Subject>
struct Metric {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  double (*value)(const Subject& subject);
};

template <typename Subject, std::size_t kCount>
void add_all(const Metric<Subject> (&table)[kCount], const Subject& subject, const Labels& labels,
             Families& families) {
  for (const Metric<Subject>& metric : table) {
    families.add(metric.name, metric.help, metric.type, labels, metric.value(subject));
  }
}

inline double number(std::uint64_t value) { return static_cast<double>(value); }

inline Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

}  // namespace phub::server
