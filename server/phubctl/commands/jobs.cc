// job list, job inspect, job close.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/job/fields.h"
#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/input.h"
#include "server/phubctl/explain/racks.h"
#include "server/phubctl/explain/values.h"

namespace phub::phubctl {
namespace {

using Stub = control::Admin::Stub;

// "2/4 of rack a".
std::string members_of(const control::JobInfo& job) {
  return workers_text(job) + (job.rack().empty() ? "" : " of rack " + job.rack());
}

// "a of 2": the server's rack, and how many the job has.
std::string rack_text(const control::JobInfo& job) {
  return job.rack().empty() ? "-" : fmt::format("{} of {}", job.rack(), job.spec().racks_size());
}

std::string pages_text(const control::JobStatistics& statistics) {
  if (statistics.reserved_page_bytes() == 0) {
    return "transparent ones: the pool had too few (vm.nr_hugepages)";
  }
  return human_bytes(statistics.reserved_page_bytes()) + " from the pool";
}

// What the job says: each field that is not at its default, as `--set` takes it, and those that
// every job has.
void add_fields(const control::JobSpec& spec, Table& table) {
  constexpr std::string_view kAlways[] = {
      "rule", "wire_type", "order", "chunk_bytes", "learning_rate", "momentum", "gradient_scale"};
  constexpr std::string_view kElsewhere[] = {"name", "workers"};
  const control::JobSpec defaults;
  for (const FieldInfo& field : job_fields()) {
    if (std::ranges::count(kElsewhere, field.name) > 0) continue;
    const std::string text = field_text(field.name, spec);
    const bool is_default = text == field_text(field.name, defaults);
    if (!is_default || std::ranges::count(kAlways, field.name) > 0) table.add({field.name, text});
  }
}

// How rounds that need not have every worker's push went.
std::string rounds_text(const control::QuorumStatistics& done) {
  return fmt::format("{}, {} not of everybody, {} of these after their grace, {} without quorum",
                     human_count(done.rounds()), human_count(done.incomplete()),
                     human_count(done.graces()), human_count(done.impatient()));
}

// By worker, how old the parameters were that its pushes were computed from.
std::string staleness_text(const control::JobInfo& job) {
  if (job.spec().rounds().quorum() == 0 || job.members().empty()) return "";
  Table table(">WORKER|>LATE BY 0|>1|>2-3|>4-7|>8-15|>16-31|>32 ROUNDS|>DROPPED|>WITHHELD");
  for (const control::Member& member : job.members()) {
    if (!member.rack().empty()) continue;  // its workers are in that rack's own table
    const control::WorkerStaleness& worker = member.staleness();
    std::vector<std::string> row = {std::to_string(member.worker_index())};
    for (int i = 0; i < 7; ++i) {
      row.push_back(i < worker.pushes_size() ? human_count(worker.pushes(i)) : "0");
    }
    row.push_back(human_count(worker.dropped()));
    row.push_back(human_count(worker.withheld()));
    table.add(row);
  }
  return "\n" + table.to_string();
}

std::string summary_text(const control::JobInfo& job) {
  const control::JobSpec& spec = job.spec();
  const control::JobStatistics& statistics = job.statistics();
  std::uint64_t elements = 0;
  for (const control::Key& key : spec.keys()) elements += key.elements();
  Table table("|");
  table.add({"job", spec.name()});
  table.add({"tenant", job.tenant()});
  table.add({"id", fmt::format("{} (epoch {})", job.job_id(), job.epoch())});
  table.add({"state", enum_word(job.state())});
  if (!job.reason().empty()) table.add({"reason", job.reason()});
  if (!job.cure().empty()) table.add({"cure", job.cure()});
  table.add({"workers", members_of(job)});
  add_fields(spec, table);
  if (spec.rounds().quorum() > 0) {
    table.add({"chunks' rounds", rounds_text(statistics.quorum())});
  }
  table.add({"keys", human_count(static_cast<std::uint64_t>(spec.keys_size()))});
  table.add({"elements", human_count(elements)});
  table.add({"rounds", human_count(statistics.rounds())});
  if (spec.loss_scaling() == control::LOSS_SCALING_VOTED || statistics.rounds_skipped() > 0) {
    table.add({"rounds skipped", human_count(statistics.rounds_skipped())});
  }
  if (statistics.updates_skipped() > 0) {
    table.add(
        {"updates skipped", human_count(statistics.updates_skipped()) + " of chunks: not finite"});
  }
  if (statistics.has_snapshots()) {
    const control::SnapshotStatistics& snapshots = statistics.snapshots();
    table.add({"snapshots", fmt::format("{} taken, {} failed", human_count(snapshots.taken()),
                                        human_count(snapshots.failed()))});
  }
  table.add({"chunks here", human_count(statistics.chunks())});
  table.add({"received", human_bytes(statistics.bytes_received())});
  table.add({"sent", human_bytes(statistics.bytes_sent())});
  table.add(
      {"memory", fmt::format("{} (of which staging {})", human_bytes(statistics.memory_bytes()),
                             human_bytes(statistics.staging_bytes()))});
  const bool has_verbs = std::any_of(job.members().begin(), job.members().end(),
                                     [](const auto& m) { return m.transport() == "verbs"; });
  if (has_verbs) table.add({"huge pages", pages_text(statistics)});
  return table.to_string();
}

std::string members_text(const control::JobInfo& job) {
  if (job.members().empty()) return "";
  Table table(">WORKER|HOST|>PID|TRANSPORT|>PUSHES|>HEARTBEAT AGE|LEFT|WHY THIS TRANSPORT");
  for (const control::Member& member : job.members()) {
    const bool is_rack = !member.rack().empty();
    table.add({is_rack ? "rack " + member.rack() : std::to_string(member.worker_index()),
               member.host(), std::to_string(member.process_id()),
               member.transport().empty() ? "-" : member.transport(), human_count(member.pushes()),
               human_seconds(member.heartbeat_age_ms() / 1000.0),
               member.lost()   ? "lost"
               : member.left() ? "yes"
                               : "no",
               member.transport_reason().empty() ? "-" : member.transport_reason()});
  }
  return "\n" + table.to_string();
}

// A table of what the last steps of each worker waited for.
std::string all_steps_text(const control::JobInfo& job) {
  const std::string text = steps_text(job, static_cast<std::size_t>(job.members_size()));
  return text.empty() ? "" : "\n" + text;
}

std::string jobs_text(const control::ListJobsReply& reply) {
  if (reply.jobs().empty()) {
    return "no jobs yet: workers make them when they join, or `phubctl job create` does";
  }
  Table table(
      ">ID|TENANT|NAME|STATE|>WORKERS|RACK|RULE|TYPE|>ROUNDS|>RECEIVED|>SENT|>MEMORY|REASON");
  for (const control::JobInfo& job : reply.jobs()) {
    const control::JobStatistics& statistics = job.statistics();
    table.add({std::to_string(job.job_id()), job.tenant(), job.spec().name(),
               enum_word(job.state()), workers_text(job), rack_text(job),
               enum_word(job.spec().rule()), enum_word(job.spec().wire_type()),
               human_count(statistics.rounds()), human_bytes(statistics.bytes_received()),
               human_bytes(statistics.bytes_sent()), human_bytes(statistics.memory_bytes()),
               job.reason()});
  }
  return table.to_string();
}

}  // namespace

Status list_jobs(const Session& session) {
  control::ListJobsRequest request;
  request.set_tenant(session.tenant);
  return session.show(&Stub::ListJobs, request, jobs_text);
}

Status inspect_job(const Session& session, const std::string& name, std::uint64_t job_id) {
  auto request = session.about<control::InspectJobRequest>(name);
  request.set_job_id(job_id);
  const auto text = [](const control::InspectJobReply& reply) {
    return summary_text(reply.job()) + members_text(reply.job()) + staleness_text(reply.job()) +
           all_steps_text(reply.job()) + values_text(reply.job()) + corruption_text(reply.job()) +
           racks_text(reply.job());
  };
  return session.show(&Stub::InspectJob, request, text, name);
}

Status close_job(const Session& session, const std::string& name) {
  const auto text = [&](const auto& /*reply*/) {
    return fmt::format("job \"{}\" is closed", name);
  };
  return session.show(&Stub::CloseJob, session.about<control::CloseJobRequest>(name), text, name);
}

}  // namespace phub::phubctl
