#include "server/metrics/collector.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "common/base/version.h"

namespace phub::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kNanosecondsPerSecond = 1e9;

// The families in order; one is made when its first series comes.
class Families {
 public:
  void counter(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.counter.value = value;
    add(name, help, MetricType::Counter, std::move(labels), std::move(metric));
  }
  void gauge(const char* name, const char* help, Labels labels, double value) {
    ClientMetric metric;
    metric.gauge.value = value;
    add(name, help, MetricType::Gauge, std::move(labels), std::move(metric));
  }
  std::vector<MetricFamily> take() { return std::move(all_); }

 private:
  void add(const char* name, const char* help, MetricType type, Labels labels,
           ClientMetric metric) {
    metric.label = std::move(labels);
    for (MetricFamily& family : all_) {
      if (family.name == name) return family.metric.push_back(std::move(metric));
    }
    all_.push_back({name, help, type, {std::move(metric)}});
  }

  std::vector<MetricFamily> all_;
};

double number(std::uint64_t value) { return static_cast<double>(value); }

void add_job(const JobView& job, Families& families) {
  const Labels labels = {{"job", job.spec->name}};
  const JobCounters& counters = job.counters;
  const bool is_running = job.state == JobState::kRunning;
  families.gauge("phub_job_running", "1 when all workers are connected, 0 while some are missing",
                 labels, is_running ? 1 : 0);
  families.gauge("phub_job_workers", "Workers that the job is made for", labels,
                 number(job.spec->workers));
  families.gauge("phub_job_members", "Workers that have joined", labels,
                 number(job.members.size()));
  const double rounds =
      counters.chunks == 0 ? 0 : number(counters.chunks_completed) / number(counters.chunks);
  families.counter("phub_job_rounds_total", "Rounds of the job's chunks here", labels, rounds);
  families.counter("phub_job_chunks_completed_total", "Chunks that were summed and answered",
                   labels, number(counters.chunks_completed));
  families.counter("phub_job_received_bytes_total", "Pushed by the job's workers", labels,
                   number(counters.bytes_received));
  families.counter("phub_job_sent_bytes_total", "Answered to the job's workers", labels,
                   number(counters.bytes_sent));
  families.gauge("phub_job_memory_bytes", "Resident: parameters, optimizer state, staging", labels,
                 number(counters.memory_bytes));
  families.gauge("phub_job_staging_bytes", "Of which staging: tcp buffers, verbs windows", labels,
                 number(counters.staging_bytes));
}

void add_core(std::size_t index, const CoreCounters& core, Families& families) {
  const Labels labels = {{"core", std::to_string(index)}};
  families.counter("phub_core_busy_seconds_total", "Time in which the core did not sleep", labels,
                   number(core.busy_nanoseconds) / kNanosecondsPerSecond);
  families.counter("phub_core_sleeps_total", "Times that the core slept for want of work", labels,
                   number(core.sleeps));
  families.counter("phub_core_chunks_completed_total", "Chunks that the core completed", labels,
                   number(core.chunks_completed));
  families.counter("phub_core_received_bytes_total", "Pushed to the core", labels,
                   number(core.bytes_received));
  families.counter("phub_core_sent_bytes_total", "Answered by the core", labels,
                   number(core.bytes_sent));
  families.gauge("phub_core_connections", "Workers that are connected to the core", labels,
                 number(core.connections));
}

void add_port(const PortStatus& status, Families& families) {
  const Labels labels = {{"device", status.identity.device},
                         {"port", std::to_string(status.identity.port)}};
  families.gauge("phub_rdma_port_up", "1 when the port is active", labels,
                 status.state == "active" ? 1 : 0);
  for (const transport::verbs::Counter& counter : status.counters) {
    Labels named = labels;
    named.push_back({"counter", counter.name});
    families.counter("phub_rdma_port_counter_total",
                     "What the device counts, as the kernel shows it (port_*_data in 4-byte words)",
                     std::move(named), number(counter.value));
  }
}

}  // namespace

std::vector<MetricFamily> MetricsCollector::Collect() const {
  Families families;
  families.gauge("phub_build_info", "1; the version is a label", {{"version", kVersion}}, 1);
  families.gauge("phub_draining", "1 when no new job is taken", {}, table_.is_draining() ? 1 : 0);
  families.gauge("phub_jobs", "Live jobs", {}, number(table_.live_jobs()));
  for (const JobView& job : table_.list()) {
    const bool is_live = job.state == JobState::kWaiting || job.state == JobState::kRunning;
    if (is_live) add_job(job, families);
  }
  const std::vector<CoreCounters> cores = data_plane_.core_counters();
  for (std::size_t i = 0; i < cores.size(); ++i) add_core(i, cores[i], families);
  for (const PortStatus& status : data_plane_.port_statuses()) add_port(status, families);
  for (const DropCounter& drop : data_plane_.drops()) {
    families.counter("phub_drops_total", "Data-plane input that was refused, by cause",
                     {{"cause", std::string(drop.cause)}}, number(drop.count));
  }
  return families.take();
}

std::string MetricsCollector::text() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

}  // namespace phub::server
