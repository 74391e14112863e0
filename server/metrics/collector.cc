#include "server/metrics/collector.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "common/base/version.h"
#include "server/job/latency.h"

namespace phub::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr auto kCounter = MetricType::Counter;
constexpr auto kGauge = MetricType::Gauge;

using Labels = std::vector<ClientMetric::Label>;

// The families in the order of their first series.
class Families {
 public:
  void add(const char* name, const char* help, MetricType type, Labels labels, double value) {
    ClientMetric metric;
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    add(name, help, type, std::move(labels), std::move(metric));
  }

  void add(const char* name, const char* help, Labels labels, const LatencyCounts& latencies) {
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
  std::vector<MetricFamily> take() { return std::move(all_); }

 private:
  void add(const char* name, const char* help, MetricType type, Labels labels,
           ClientMetric metric) {
    metric.label = std::move(labels);
    const auto found = std::find_if(all_.begin(), all_.end(), [name](const MetricFamily& family) {
      return family.name == name;
    });
    if (found != all_.end()) return found->metric.push_back(std::move(metric));
    all_.push_back({name, help, type, {std::move(metric)}});
  }

  std::vector<MetricFamily> all_;
};

// A row of a table: one metric of every Subject.
template <typename Subject>
struct Metric {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const Subject& subject);
};

template <typename Subject, std::size_t kCount>
void add_all(const Metric<Subject> (&table)[kCount], const Subject& subject, const Labels& labels,
             Families& families) {
  for (const Metric<Subject>& metric : table) {
    families.add(metric.name, metric.help, metric.type, labels, metric.value(subject));
  }
}

double number(std::uint64_t value) { return static_cast<double>(value); }
double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

bool is_live(const JobView& job) {
  return job.state == JobState::kWaiting || job.state == JobState::kRunning;
}

// Not "job": Prometheus gives that label to its own jobs.
Labels labels_of(const JobView& job) {
  return {{"phub_job", job.spec->name}, {"tenant", job.tenant}};
}

Labels with(Labels labels, Labels more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

double rounds_of(const JobView& job) {
  const JobCounters& counters = job.counters;
  return counters.chunks == 0 ? 0 : number(counters.chunks_completed) / number(counters.chunks);
}

std::size_t workers_lost(const JobView& job) {
  return static_cast<std::size_t>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const MemberView& member) { return member.was_lost; }));
}

// That have joined.
std::size_t workers_of(const JobView& job) {
  return static_cast<std::size_t>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const MemberView& member) { return member.rack.empty(); }));
}

const Metric<JobView> kOfJob[] = {
    {"phub_job_running", "1 when all workers are connected, 0 while some are missing", kGauge,
     [](const JobView& j) { return j.state == JobState::kRunning ? 1.0 : 0.0; }},
    {"phub_job_workers", "Workers that the job is made for; of several racks: in this one", kGauge,
     [](const JobView& j) { return number(j.rack.workers); }},
    {"phub_job_members", "Workers that have joined here", kGauge,
     [](const JobView& j) { return number(workers_of(j)); }},
    {"phub_job_rounds_total", "Rounds of the job's chunks here", kCounter, rounds_of},
    {"phub_job_rounds_skipped_total", "Rounds that the workers' votes left out: an overflow",
     kCounter, [](const JobView& j) { return number(j.counters.rounds_skipped); }},
    {"phub_job_updates_skipped_total", "Updates of chunks left out: the sum was not finite",
     kCounter, [](const JobView& j) { return number(j.counters.updates_skipped); }},
    {"phub_job_chunks_completed_total", "Chunks that were summed and replied to", kCounter,
     [](const JobView& j) { return number(j.counters.chunks_completed); }},
    {"phub_job_received_bytes_total", "Of the job's workers here, and of other racks", kCounter,
     [](const JobView& j) { return number(j.counters.bytes_received); }},
    {"phub_job_sent_bytes_total", "To the job's workers here, and to other racks", kCounter,
     [](const JobView& j) { return number(j.counters.bytes_sent); }},
    {"phub_job_memory_bytes", "Resident: parameters, optimizer state, staging", kGauge,
     [](const JobView& j) { return number(j.counters.memory_bytes); }},
    {"phub_job_staging_bytes", "Of which staging: tcp buffers, verbs windows", kGauge,
     [](const JobView& j) { return number(j.counters.staging_bytes); }},
    {"phub_job_queued_pushes", "Pushes that wait for their turn on the cores", kGauge,
     [](const JobView& j) { return number(j.counters.queued_pushes); }},
};

const Metric<JobTiming> kOfTiming[] = {
    {"phub_job_round_seconds", "A round, mean of the last 256 at most", kGauge,
     [](const JobTiming& t) { return t.round_seconds; }},
    {"phub_job_round_work_seconds", "Of which all cores here work for the job", kGauge,
     [](const JobTiming& t) { return t.core_seconds; }},
};

const Metric<WorkerTiming> kOfWorkerTiming[] = {
    {"phub_member_last_share", "Share of the last rounds in which it was the last to push all",
     kGauge, [](const WorkerTiming& w) { return w.last_share; }},
    {"phub_member_late_seconds", "How long after the median worker it had pushed all, mean", kGauge,
     [](const WorkerTiming& w) { return w.late_seconds; }},
};

const Metric<WorkerTraffic> kOfTraffic[] = {
    {"phub_member_pushes_total", "Pushes of the worker", kCounter,
     [](const WorkerTraffic& t) { return number(t.pushes); }},
    {"phub_member_received_bytes_total", "Pushed by the worker", kCounter,
     [](const WorkerTraffic& t) { return number(t.bytes_received); }},
    {"phub_member_sent_bytes_total", "Replies to the worker", kCounter,
     [](const WorkerTraffic& t) { return number(t.bytes_sent); }},
};

const Metric<JobView> kOfQuorum[] = {
    {"phub_job_quorum", "Pushes that complete a round of a chunk", kGauge,
     [](const JobView& j) { return number(j.spec->rounds.quorum); }},
    {"phub_job_workers_lost", "Workers that the job goes on without", kGauge,
     [](const JobView& j) { return number(workers_lost(j)); }},
    {"phub_job_chunk_rounds_total", "Rounds of single chunks", kCounter,
     [](const JobView& j) { return number(j.counters.quorum.rounds); }},
    {"phub_job_chunk_rounds_incomplete_total", "Of which without somebody's push", kCounter,
     [](const JobView& j) { return number(j.counters.quorum.incomplete); }},
    {"phub_job_chunk_rounds_without_quorum_total", "Of which their patience was over", kCounter,
     [](const JobView& j) { return number(j.counters.quorum.impatient); }},
    {"phub_job_chunk_graces_total", "Of which those whose grace was over", kCounter,
     [](const JobView& j) { return number(j.counters.quorum.graces); }},
};

const Metric<WorkerStaleness> kOfStaleness[] = {
    {"phub_member_pushes_dropped_total", "Pushes of the worker that were late, and dropped",
     kCounter, [](const WorkerStaleness& w) { return number(w.dropped); }},
    {"phub_member_replies_withheld_total", "Its replies that waited for the slowest worker",
     kCounter, [](const WorkerStaleness& w) { return number(w.withheld); }},
};

const Metric<WorkerValues> kOfValues[] = {
    {"phub_member_pushes_not_finite_total", "Pushes of the worker with a value that is not finite",
     kCounter, [](const WorkerValues& w) { return number(w.pushes); }},
    {"phub_member_overflow_votes_total", "Its votes that said overflow", kCounter,
     [](const WorkerValues& w) { return number(w.overflow_votes); }},
};

const Metric<RackTraffic> kOfRack[] = {
    {"phub_job_rack_sums_up_bytes_total", "This rack's sums, to that rack where it is above",
     kCounter, [](const RackTraffic& r) { return number(r.above.bytes_sent); }},
    {"phub_job_rack_replies_from_above_bytes_total", "That rack's replies to them", kCounter,
     [](const RackTraffic& r) { return number(r.above.bytes_received); }},
    {"phub_job_rack_sums_from_below_bytes_total", "That rack's sums, where it is below", kCounter,
     [](const RackTraffic& r) { return number(r.below.bytes_received); }},
    {"phub_job_rack_replies_down_bytes_total", "Replies to them", kCounter,
     [](const RackTraffic& r) { return number(r.below.bytes_sent); }},
};

const Metric<RackTiming> kOfRackTiming[] = {
    {"phub_job_rack_last_share",
     "Share of the last rounds in which it was the last rack to bring all", kGauge,
     [](const RackTiming& r) { return r.last_share; }},
    {"phub_job_rack_late_seconds",
     "From the last push of this rack's workers to its first sum or reply, mean", kGauge,
     [](const RackTiming& r) { return r.late_seconds; }},
    {"phub_job_rack_arrival_seconds", "From its first sum or reply to its last, mean", kGauge,
     [](const RackTiming& r) { return r.arrival_seconds; }},
};

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

void add_timing(const JobView& job, const JobTiming& timing, Families& families) {
  const Labels labels = labels_of(job);
  add_all(kOfTiming, timing, labels, families);
  std::vector<std::pair<const char*, double>> parts = {{"compute", timing.compute_seconds},
                                                       {"push", timing.push_seconds},
                                                       {"wait", timing.wait_seconds},
                                                       {"aggregate", timing.aggregate_seconds},
                                                       {"reply", timing.reply_seconds}};
  if (!timing.racks.empty()) parts.emplace_back("racks", timing.racks_seconds);
  for (const auto& [part, value] : parts) {
    families.add("phub_job_round_part_seconds", "Where a round goes; the parts add up to it",
                 kGauge, with(labels, {{"part", part}}), value);
  }
}

// As a histogram: at most so many rounds behind.
void add_staleness(const WorkerStaleness& worker, const Labels& labels, Families& families) {
  static constexpr const char* kBehind[kStalenessBuckets] = {"0",  "1",  "3",   "7",
                                                             "15", "31", "+Inf"};
  add_all(kOfStaleness, worker, labels, families);
  std::uint64_t pushes = 0;
  for (std::size_t i = 0; i < kStalenessBuckets; ++i) {
    pushes += worker.pushes[i];
    families.add("phub_member_push_staleness_total",
                 "Pushes that were computed from parameters at most so many rounds behind",
                 kCounter, with(labels, {{"rounds", kBehind[i]}}), number(pushes));
  }
}

void add_members(const JobView& job, const std::optional<JobTiming>& timing, Families& families) {
  for (const MemberView& member : job.members) {
    if (!member.rack.empty()) continue;  // see add_racks
    const Labels labels = with(labels_of(job), {{"worker", std::to_string(member.index)},
                                                {"host", member.host},
                                                {"transport", member.transport}});
    if (member.worker < job.counters.workers.size()) {
      add_all(kOfTraffic, job.counters.workers[member.worker], labels, families);
    }
    if (member.worker < job.counters.quorum.workers.size()) {
      add_staleness(job.counters.quorum.workers[member.worker], labels, families);
    }
    if (job.spec->watch_values != WatchValues::kOff) {
      const auto& values = job.counters.values;
      add_all(kOfValues, member.worker < values.size() ? values[member.worker] : WorkerValues(),
              labels, families);
    }
    if (timing && member.worker < timing->workers.size()) {
      add_all(kOfWorkerTiming, timing->workers[member.worker], labels, families);
    }
  }
}

void add_racks(const JobView& job, const std::optional<JobTiming>& timing, Families& families) {
  for (std::size_t rack = 0; rack < job.counters.racks.size(); ++rack) {
    if (rack == job.rack.own) continue;
    const Labels labels = with(labels_of(job), {{"rack", job.spec->racks[rack].name}});
    add_all(kOfRack, job.counters.racks[rack], labels, families);
    if (timing && rack < timing->racks.size() && timing->racks[rack].brings) {
      add_all(kOfRackTiming, timing->racks[rack], labels, families);
    }
  }
}

void add_job(const JobView& job, const DataPlane& data_plane, Families& families) {
  const Labels labels = labels_of(job);
  add_all(kOfJob, job, labels, families);
  if (!job.spec->rounds.waits_for_all()) add_all(kOfQuorum, job, labels, families);
  families.add("phub_job_push_to_reply_seconds", "Of each reply, from its chunk's first push",
               labels, job.counters.push_to_reply);
  families.add("phub_job_wait_for_slowest_seconds",
               "Of each chunk, from its first push to its last", labels,
               job.counters.wait_for_slowest);
  const auto timing = timing_of(data_plane.job_rounds(job.id, RoundLog::kRounds));
  if (timing) add_timing(job, *timing, families);
  add_members(job, timing, families);
  add_racks(job, timing, families);
}

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
        "for others of their tenant's or other tenants'",
        kCounter, {{"outcome", outcome}}, number(count));
  };
  add("served", door.handed_over);
  add("turned out", door.turned_out - door.crowded_out);
  add("crowded out", door.crowded_out);
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
