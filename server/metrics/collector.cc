#include "server/metrics/collector.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "common/base/version.h"
#include "server/metrics/families.h"
#include "server/metrics/job_metrics.h"

namespace phub::server {
namespace {

using prometheus::MetricFamily;

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

bool is_live(const JobView& job) {
  return job.state == JobState::kWaiting || job.state == JobState::kRunning;
}

const Metric<CoreCounters> kBusyOfCore[] = {
    {"phub_core_busy_seconds_total", "Time in which the core did not sleep", kCounter,
     [](const CoreCounters& c) { return seconds(c.busy_nanoseconds); }},
};

const Metric<CoreCounters> kOfCore[] = {
    {"phub_core_sleeps_total", "Times that the core slept for want of work", kCounter,
     [](const CoreCounters& c) { return number(c.sleeps); }},
    {"phub_core_chunks_completed_total", "Chunks that the core completed", kCounter,
     [](const CoreCounters& c) { return number(c.chunks_completed); }},
    {"phub_core_received_bytes_total", "Pushed to the core", kCounter,
     [](const CoreCounters& c) { return number(c.bytes_received); }},
    {"phub_core_sent_bytes_total", "Replies of the core", kCounter,
     [](const CoreCounters& c) { return number(c.bytes_sent); }},
    {"phub_core_connections", "Workers that are connected to the core", kGauge,
     [](const CoreCounters& c) { return number(c.connections); }},
};

const Metric<CoreJobCounters> kOfCoreJob[] = {
    {"phub_core_job_busy_seconds_total", "Time that the core worked for the job", kCounter,
     [](const CoreJobCounters& j) { return seconds(j.busy_nanoseconds); }},
    {"phub_core_job_queued_pushes", "Pushes of the job that wait for their turn on the core",
     kGauge, [](const CoreJobCounters& j) { return number(j.queued_pushes); }},
};

// Sums over a tenant's live jobs. Gauges only: a sum of counters would fall when a job ends;
// `sum by (tenant) (rate(phub_job_..._total[1m]))` does not.
struct TenantSums {
  std::uint64_t jobs = 0;
  std::uint64_t members = 0;
  std::uint64_t memory_bytes = 0;
};

const Metric<TenantSums> kOfTenant[] = {
    {"phub_tenant_jobs", "Live jobs of the tenant", kGauge,
     [](const TenantSums& t) { return number(t.jobs); }},
    {"phub_tenant_members", "Workers in the tenant's jobs", kGauge,
     [](const TenantSums& t) { return number(t.members); }},
    {"phub_tenant_memory_bytes", "Resident memory of the tenant's jobs", kGauge,
     [](const TenantSums& t) { return number(t.memory_bytes); }},
};

void add_tenants(const std::map<std::uint64_t, JobView>& jobs, Families& families) {
  std::map<std::string, TenantSums> tenants;
  for (const auto& [id, job] : jobs) {
    TenantSums& sums = tenants[job.tenant];
    sums.jobs += 1;
    sums.members += workers_of(job);
    sums.memory_bytes += job.counters.memory_bytes;
  }
  for (const auto& [tenant, sums] : tenants) {
    add_all(kOfTenant, sums, {{"tenant", tenant}}, families);
  }
}

void add_core(const Labels& labels, const CoreCounters& core, Families& families) {
  add_all(kOfCore, core, labels, families);
  std::uint64_t queued = 0;
  for (const CoreJobCounters& counters : core.jobs) queued += counters.queued_pushes;
  families.add("phub_core_queued_pushes", "Pushes that wait for their turn on the core", kGauge,
               labels, number(queued));
}

// Of the jobs that are shown.
void add_core_jobs(const Labels& labels, const CoreCounters& core,
                   const std::map<std::uint64_t, JobView>& jobs, Families& families) {
  for (const CoreJobCounters& counters : core.jobs) {
    const auto job = jobs.find(counters.job_id);
    if (job == jobs.end()) continue;
    add_all(kOfCoreJob, counters, with(labels, labels_of(job->second)), families);
  }
}

void add_port(const PortStatus& status, Families& families) {
  const Labels labels = {{"device", status.identity.device},
                         {"port", std::to_string(status.identity.port)}};
  families.add("phub_rdma_port_up", "1 when the port is active", kGauge, labels,
               status.state == "active" ? 1 : 0);
  for (const transport::verbs::PortCounter& counter : status.counters) {
    families.add("phub_rdma_port_counter_total",
                 "What the device counts, as the kernel shows it (port_*_data in 4-byte words)",
                 kCounter, with(labels, {{"counter", counter.name}}), number(counter.value));
  }
}

void add_control_door(const ControlDoorCounters& door, Families& families) {
  const auto add = [&](const char* outcome, std::uint64_t count) {
    families.add(
        "phub_control_connections_total",
        "Connections to the control port: served, closed as strangers or as silent, closed "
        "for others of their tenant's or other tenants', closed for frames that no client sends",
        kCounter, {{"outcome", outcome}}, number(count));
  };
  add("served", door.handed_over);
  add("turned out", door.turned_out - door.crowded_out);
  add("crowded out", door.crowded_out);
  add("unruly", door.unruly);
  families.add("phub_control_held_frames_total",
               "Frames to the control port that had to wait, for time or for room", kCounter, {},
               number(door.held));
  families.add("phub_control_descriptor_shortages_total",
               "Times that there was no descriptor for another connection to the control port",
               kCounter, {}, number(door.shortages));
}

void add_directory(const Directory& directory, Families& families) {
  const DirectoryStatus status = directory.status();
  families.add(
      "phub_directory_trouble_seconds",
      "For how long what is known of the racks may be old; 0: it is not", kGauge, {},
      status.trouble.empty() ? 0.0 : std::chrono::duration<double>(status.troubled_for).count());
  families.add("phub_directory_keys_left_out",
               "In etcd, under the prefix: keys of no servers, or too many", kGauge, {},
               number(status.keys_left_out));
  const std::vector<RackEntry> racks = directory.racks();
  families.add("phub_directory_racks", "That are known, the own one included", kGauge, {},
               number(racks.size()));
  for (const RackEntry& rack : racks) {
    if (rack.name != directory.own_rack()) continue;
    families.add("phub_directory_own_servers", "Of this server's rack, itself included", kGauge,
                 {{"rack", rack.name}}, number(rack.servers.size()));
  }
}

void add_server(const JobTable& table, const DataPlane& data_plane, Families& families) {
  families.add("phub_jobs", "Live jobs", kGauge, {}, number(table.views.live_jobs()));
  for (const PortStatus& status : data_plane.port_statuses()) add_port(status, families);
  for (const DropCounter& drop : data_plane.drops()) {
    families.add("phub_drops_total", "Data-plane input that was refused, by cause", kCounter,
                 {{"cause", std::string(drop.cause)}}, number(drop.count));
  }
}

}  // namespace

std::vector<MetricFamily> MetricsCollector::families(const std::string& tenant) const {
  Families families;
  families.add("phub_build_info", "1; the version is a label", kGauge, {{"version", kVersion}}, 1);
  families.add("phub_draining", "1 when no new job is taken", kGauge, {},
               table.views.is_draining() ? 1 : 0);
  for (const CertificateExpiry& expiry : certificates()) {
    families.add("phub_certificate_expires_seconds", "When it does, in seconds of Unix time",
                 kGauge, {{"certificate", expiry.what}}, static_cast<double>(expiry.unix_s));
  }
  std::map<std::uint64_t, JobView> jobs;
  for (JobView& job : table.views.list()) {
    const bool is_shown = tenant.empty() || job.tenant == tenant;
    if (is_shown && is_live(job)) jobs.emplace(job.id, std::move(job));
  }
  for (const auto& [id, job] : jobs) add_job(job, data_plane, families);
  add_tenants(jobs, families);
  const std::vector<CoreCounters> cores = data_plane.core_counters();
  for (std::size_t i = 0; i < cores.size(); ++i) {
    const Labels labels = {{"core", std::to_string(i)}};
    add_all(kBusyOfCore, cores[i], labels, families);
    if (tenant.empty()) add_core(labels, cores[i], families);
    add_core_jobs(labels, cores[i], jobs, families);
  }
  if (tenant.empty()) {
    add_server(table, data_plane, families);
    add_control_door(control_door(), families);
    if (directory != nullptr && !directory->own_rack().empty()) {
      add_directory(*directory, families);
    }
    families.add("phub_log_lines_dropped_total", "Lines of the log that nobody read in time",
                 kCounter, {}, number(log_lines_dropped()));
    families.add("phub_waiting_starts", "Workers that wait for the others of their job", kGauge, {},
                 number(table.starts.waiting()));
  }
  return families.take();
}

std::string MetricsCollector::text(const std::string& tenant) const {
  return prometheus::TextSerializer().Serialize(families(tenant));
}

}  // namespace phub::server
