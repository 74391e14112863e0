// job list, job inspect, job close.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/racks.h"
#include "server/phubctl/explain/values.h"

namespace phub::phubctl {
namespace {

using Stub = control::Admin::Stub;

// "a:4, b:4 (spread)".
std::string racks_of(const control::JobSpec& spec) {
  std::string text;
  for (const control::JobRack& rack : spec.racks()) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", rack.name(), rack.workers());
  }
  return fmt::format("{} ({})", text, enum_word(spec.rack_shape()));
}

// Of which elements of its sums other racks are told.
std::string rack_compress_of(const control::RackCompress& compress) {
  return fmt::format(
      "{:.3g} % of a chunk's elements, by {}; keys with fewer than {} go whole; the rest is {}",
      100.0 * compress.density(), enum_word(compress.selector()),
      human_count(compress.dense_below()),
      compress.error_feedback() ? "kept for the next round" : "lost");
}

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

std::string_view weight_of_push(control::PushWeight weight) {
  switch (weight) {
    case control::PUSH_WEIGHT_STALENESS:
      return "1 / (1 + staleness)";
    case control::PUSH_WEIGHT_SAMPLES:
      return "its samples";
    default:
      return "1";
  }
}

// When a round is complete, and how it went.
void add_rounds(const control::JobInfo& job, Table& table) {
  const control::RoundPolicy& rounds = job.spec().rounds();
  const control::QuorumStatistics& done = job.statistics().quorum();
  table.add({"quorum", fmt::format("{} of {} workers", rounds.quorum(), job.spec().workers())});
  table.add({"grace", fmt::format("{} ms", rounds.grace_ms())});
  if (rounds.late() == control::LATE_PUSHES_DROP) {
    table.add({"patience", fmt::format("{} ms", rounds.patience_ms())});
  }
  table.add({"staleness", rounds.has_staleness() ? fmt::format("at most {}", rounds.staleness())
                                                 : std::string("any")});
  table.add({"late pushes", rounds.late() == control::LATE_PUSHES_ADD ? "added" : "dropped"});
  table.add({"weight of a push", std::string(weight_of_push(rounds.weight()))});
  table.add({"turns", rounds.turns() ? "one worker after the other" : "none"});
  if (rounds.hogwild()) table.add({"hogwild", "workers change the shared parameters themselves"});
  table.add(
      {"chunks' rounds",
       fmt::format("{}, {} not of everybody, {} of these after their grace, {} without quorum",
                   human_count(done.rounds()), human_count(done.incomplete()),
                   human_count(done.graces()), human_count(done.impatient()))});
}

// By worker, how old the parameters were that its pushes were computed from.
std::string staleness_text(const control::JobInfo& job) {
  if (job.spec().rounds().quorum() == 0 || job.members().empty()) return "";
  Table table(">WORKER|>LATE BY 0|>1|>2-3|>4-7|>8-15|>16-31|>32 ROUNDS|>DROPPED|>WITHHELD");
  for (const control::Member& member : job.members()) {
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
  if (spec.racks_size() > 0) table.add({"racks", racks_of(spec)});
  if (spec.has_rack_compress()) {
    table.add({"rack compress", rack_compress_of(spec.rack_compress())});
  }
  table.add({"rule", enum_word(spec.rule())});
  table.add({"wire type", enum_word(spec.wire_type())});
  if (spec.encoding() != control::ENCODING_DENSE) {
    table.add({"encoding", enum_word(spec.encoding())});
  }
  table.add({"order", enum_word(spec.order())});
  if (spec.rounds().quorum() > 0) add_rounds(job, table);
  if (spec.watch_values() != control::WATCH_VALUES_OFF) {
    table.add({"watch values", enum_word(spec.watch_values())});
  }
  if (spec.checksums()) table.add({"checksums", "of each push"});
  if (spec.tcp_streams() > 1) {
    table.add({"tcp streams", fmt::format("{} of each worker to each core", spec.tcp_streams())});
  }
  table.add({"chunk size", human_bytes(spec.chunk_bytes())});
  table.add({"learning rate", fmt::format("{}", spec.learning_rate())});
  table.add({"momentum", fmt::format("{}", spec.momentum())});
  table.add({"gradient scale", fmt::format("{}", spec.gradient_scale())});
  if (spec.rule() == control::RULE_LARS) {
    table.add({"trust", fmt::format("coefficient {}, epsilon {}", spec.trust_coefficient(),
                                    spec.trust_epsilon())});
  }
  if (spec.loss_scaling() != control::LOSS_SCALING_NONE) {
    table.add({"loss scale", spec.loss_scaling() == control::LOSS_SCALING_VOTED
                                 ? "each round's, by the workers' votes"
                                 : fmt::format("{}", spec.loss_scale())});
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
           values_text(reply.job()) + corruption_text(reply.job()) + racks_text(reply.job());
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
