// job list, job inspect, job close.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

std::string state_of(const control::JobInfo& job) {
  return enum_word(*control::JobState_descriptor()->FindValueByNumber(job.state()));
}
std::string rule_of(const control::JobSpec& spec) {
  return enum_word(*control::UpdateRule_descriptor()->FindValueByNumber(spec.rule()));
}
std::string wire_type_of(const control::JobSpec& spec) {
  return enum_word(*control::WireType_descriptor()->FindValueByNumber(spec.wire_type()));
}
std::string order_of(const control::JobSpec& spec) {
  return enum_word(*control::AggregationOrder_descriptor()->FindValueByNumber(spec.order()));
}

std::string members_of(const control::JobInfo& job) {
  return fmt::format("{}/{}", job.members_size(), job.spec().workers());
}

std::string pages_text(const control::JobStatistics& statistics) {
  if (statistics.reserved_page_bytes() == 0) {
    return "transparent ones: the pool had too few (vm.nr_hugepages)";
  }
  return human_bytes(statistics.reserved_page_bytes()) + " from the pool";
}

void print_summary(const control::JobInfo& job) {
  const control::JobSpec& spec = job.spec();
  const control::JobStatistics& statistics = job.statistics();
  std::uint64_t elements = 0;
  for (const control::Key& key : spec.keys()) elements += key.elements();
  Table table({{"job"}, {spec.name()}});
  table.add({"tenant", job.tenant()});
  table.add({"id", fmt::format("{} (epoch {})", job.job_id(), job.epoch())});
  table.add({"state", state_of(job)});
  if (!job.reason().empty()) table.add({"reason", job.reason()});
  table.add({"workers", members_of(job)});
  table.add({"rule", rule_of(spec)});
  table.add({"wire type", wire_type_of(spec)});
  table.add({"order", order_of(spec)});
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
  table.add({"chunks here", human_count(statistics.chunks())});
  table.add({"received", human_bytes(statistics.bytes_received())});
  table.add({"sent", human_bytes(statistics.bytes_sent())});
  table.add(
      {"memory", fmt::format("{} (of which staging {})", human_bytes(statistics.memory_bytes()),
                             human_bytes(statistics.staging_bytes()))});
  const bool has_verbs = std::any_of(job.members().begin(), job.members().end(),
                                     [](const auto& m) { return m.transport() == "verbs"; });
  if (has_verbs) table.add({"huge pages", pages_text(statistics)});
  print(table.to_string());
}

void print_members(const control::JobInfo& job) {
  if (job.members().empty()) return;
  Table table({{"WORKER", Align::kRight},
               {"HOST"},
               {"PID", Align::kRight},
               {"TRANSPORT"},
               {"PUSHES", Align::kRight},
               {"HEARTBEAT AGE", Align::kRight},
               {"LEFT"},
               {"WHY THIS TRANSPORT"}});
  for (const control::Member& member : job.members()) {
    table.add({std::to_string(member.worker_index()), member.host(),
               std::to_string(member.process_id()),
               member.transport().empty() ? "-" : member.transport(), human_count(member.pushes()),
               human_seconds(member.heartbeat_age_ms() / 1000.0), member.left() ? "yes" : "no",
               member.transport_reason().empty() ? "-" : member.transport_reason()});
  }
  print("\n" + table.to_string());
}

}  // namespace

Status list_jobs(const Session& session) {
  control::ListJobsRequest request;
  request.set_tenant(session.tenant);
  control::ListJobsReply reply;
  PHUB_RETURN_IF_ERROR(session.client.call(&control::Admin::Stub::ListJobs, request, reply));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  if (reply.jobs().empty()) {
    print("no jobs yet: workers make them when they join, or `phubctl job create` does");
    return {};
  }
  Table table({{"ID", Align::kRight},
               {"TENANT"},
               {"NAME"},
               {"STATE"},
               {"WORKERS", Align::kRight},
               {"RULE"},
               {"TYPE"},
               {"ROUNDS", Align::kRight},
               {"RECEIVED", Align::kRight},
               {"SENT", Align::kRight},
               {"MEMORY", Align::kRight},
               {"REASON"}});
  for (const control::JobInfo& job : reply.jobs()) {
    const control::JobStatistics& statistics = job.statistics();
    table.add({std::to_string(job.job_id()), job.tenant(), job.spec().name(), state_of(job),
               members_of(job), rule_of(job.spec()), wire_type_of(job.spec()),
               human_count(statistics.rounds()), human_bytes(statistics.bytes_received()),
               human_bytes(statistics.bytes_sent()), human_bytes(statistics.memory_bytes()),
               job.reason()});
  }
  print(table.to_string());
  return {};
}

Status inspect_job(const Session& session, const std::string& name, std::uint64_t job_id) {
  auto request = session.about<control::InspectJobRequest>(name);
  request.set_job_id(job_id);
  control::InspectJobReply reply;
  PHUB_RETURN_IF_ERROR(with_other_tenants(
      session, name, session.client.call(&control::Admin::Stub::InspectJob, request, reply)));
  if (session.as_json) {
    print(message_json(reply));
    return {};
  }
  print_summary(reply.job());
  print_members(reply.job());
  return {};
}

Status close_job(const Session& session, const std::string& name) {
  const auto request = session.about<control::CloseJobRequest>(name);
  control::CloseJobReply reply;
  PHUB_RETURN_IF_ERROR(with_other_tenants(
      session, name, session.client.call(&control::Admin::Stub::CloseJob, request, reply)));
  print(session.as_json ? message_json(reply) : fmt::format("job \"{}\" is closed", name));
  return {};
}

}  // namespace phub::phubctl
