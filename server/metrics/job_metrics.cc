#include "server/metrics/job_metrics.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/job/timing.h"

namespace phub::server {
namespace {

double rounds_of(const JobView& job) {
  const JobCounters& counters = job.counters;
  return counters.chunks == 0 ? 0 : number(counters.chunks_completed) / number(counters.chunks);
}

// Workers of this rack, or other racks.
std::size_t lost(const JobView& job, bool are_racks) {
  return static_cast<std::size_t>(
      std::count_if(job.members.begin(), job.members.end(), [&](const MemberView& member) {
        return member.was_lost && member.rack.empty() != are_racks;
      }));
}

// Rounds of gradients that ended with an exchange. The first round has the initial parameters.
double outer_steps(const JobView& job) {
  const auto rounds = static_cast<std::uint64_t>(rounds_of(job));
  const std::uint64_t before = job.counters.rounds_before;
  const std::uint64_t steps = job.spec->rack_local.steps;
  const std::uint64_t here = rounds == 0 ? 0 : rounds - 1;
  return number((before + here) / steps - before / steps);
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
    {"phub_job_snapshots_total", "Snapshots of the job that were taken", kCounter,
     [](const JobView& j) { return number(j.snapshots.taken); }},
    {"phub_job_snapshots_failed_total", "Snapshots that were refused or failed", kCounter,
     [](const JobView& j) { return number(j.snapshots.failed); }},
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
     [](const JobView& j) { return number(lost(j, /*are_racks=*/false)); }},
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

const Metric<WorkerCorruption> kOfCorruption[] = {
    {"phub_member_pushes_corrupt_total", "Pushes of the worker that had not their checksum",
     kCounter, [](const WorkerCorruption& w) { return number(w.pushes); }},
};

const Metric<StepWaits> kOfSteps[] = {
    {"phub_member_step_seconds", "A step of the worker, mean of its last 15 to 30 s, as it says",
     kGauge, [](const StepWaits& t) { return t.step_seconds(); }},
};

const Metric<JobView> kOfOuterSteps[] = {
    {"phub_job_outer_steps_total", "Exchanges with other racks that this rack has come to",
     kCounter, outer_steps},
};

const Metric<JobView> kOfGoingOn[] = {
    {"phub_job_racks_lost", "Other racks that the job goes on without", kGauge,
     [](const JobView& j) { return number(lost(j, /*are_racks=*/true)); }},
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

void add_steps(const StepWaits& steps, const Labels& labels, Families& families) {
  add_all(kOfSteps, steps, labels, families);
  for (const auto& [part, share] :
       {std::pair("input", steps.input_share()), std::pair("exchange", steps.exchange_share()),
        std::pair("compute", steps.compute_share())}) {
    families.add("phub_member_step_share",
                 "Where the worker's steps go: waits for samples and for the exchange, computing",
                 kGauge, with(labels, {{"of", part}}), share);
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
    if (job.spec->checksums) {
      const auto& found = job.counters.corruption;
      add_all(kOfCorruption,
              member.worker < found.size() ? found[member.worker] : WorkerCorruption(), labels,
              families);
    }
    if (timing && member.worker < timing->workers.size()) {
      add_all(kOfWorkerTiming, timing->workers[member.worker], labels, families);
    }
    if (member.step_waits) add_steps(*member.step_waits, labels, families);
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

}  // namespace

Labels labels_of(const JobView& job) {
  return {{"phub_job", job.spec->name}, {"tenant", job.tenant}};
}

std::size_t workers_of(const JobView& job) {
  return static_cast<std::size_t>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const MemberView& member) { return member.rack.empty(); }));
}

void add_job(const JobView& job, const DataPlane& data_plane, Families& families) {
  const Labels labels = labels_of(job);
  add_all(kOfJob, job, labels, families);
  if (!job.spec->rounds.waits_for_all()) add_all(kOfQuorum, job, labels, families);
  if (job.spec->rack_local.is_on()) add_all(kOfOuterSteps, job, labels, families);
  if (job.spec->rack_local.goes_on()) add_all(kOfGoingOn, job, labels, families);
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

}  // namespace phub::server
