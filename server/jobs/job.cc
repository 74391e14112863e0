#include "server/jobs/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/words.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kMissingNamedMax = 8;

// What `worker` has still to do before the job starts; empty: nothing.
std::string describe_delay(const Job& job, std::uint32_t worker, std::uint32_t cores) {
  const auto found = job.members.find(worker);
  if (found == job.members.end()) return fmt::format("worker {} has not joined", worker);
  const Member& member = *found->second;
  if (!member.is_ready) return describe(member) + " has joined but is not ready";
  if (member.path.cores_connected == cores) return {};
  return fmt::format("{} is connected to {} of {} cores", describe(member),
                     member.path.cores_connected, cores);
}

}  // namespace

std::string_view name_of(JobState state) {
  static constexpr Words<JobState, 4> kWords = {{"waiting", "running", "ended", "failed"}};
  return kWords.of(state);
}

std::string to_string(const JobName& job) {
  return job.tenant == kDefaultTenant ? job.name : job.tenant + "/" + job.name;
}

std::string describe(const Member& member) {
  return fmt::format("worker {} (host {}, pid {})", member.worker, member.host, member.process_id);
}

std::string describe(const Topology& topology) {
  return fmt::format("cores_per_server [{}], server_index {}",
                     fmt::join(topology.cores_per_server, ", "), topology.server_index);
}

bool is_complete(const Job& job, std::uint32_t cores) {
  if (job.members.size() != job.spec->workers) return false;
  for (const auto& [worker, member] : job.members) {
    if (!member->is_ready || member->path.cores_connected != cores) return false;
  }
  return true;
}

std::string describe_missing(const Job& job, std::uint32_t cores) {
  std::string text;
  std::uint32_t missing = 0;
  for (std::uint32_t worker = 0; worker < job.spec->workers; ++worker) {
    const std::string delay = describe_delay(job, worker, cores);
    if (delay.empty()) continue;
    if (++missing > kMissingNamedMax) continue;
    if (!text.empty()) text += "; ";
    text += delay;
  }
  if (missing > kMissingNamedMax) {
    text += fmt::format("; and {} more workers", missing - kMissingNamedMax);
  }
  return text;
}

Status unknown_job(const std::string& label) {
  return {Code::kNotFound,
          fmt::format("job \"{}\" is not known here; `phubctl job list` shows all", label)};
}

Status no_live_job(const JobName& name) {
  return {Code::kNotFound, fmt::format("no live job is named \"{}\"; `phubctl job list` shows all",
                                       to_string(name))};
}

Status job_is_over(const Job& job) {
  return {Code::kAborted, fmt::format("job \"{}\": {}", label(job), job.reason)};
}

Status is_replaced(std::string_view call, const Member& member) {
  return {Code::kAborted,
          fmt::format("a later {} of {} has taken this one's place", call, describe(member))};
}

JobLayout layout_of(const Job& job) {
  const JobSpec& spec = *job.spec;
  JobLayout layout{.job_id = job.id,
                   .tenant = job.tenant.name,
                   .tenant_id = job.tenant.id,
                   .weight = job.tenant.quotas.weight,
                   .epoch = job.epoch,
                   .workers = spec.workers,
                   .wire_type = spec.wire_type,
                   .rule = spec.rule,
                   .hyper = spec.hyper,
                   .deterministic = spec.deterministic,
                   .weight_decay = {},
                   .lars = lars_of(spec),
                   .exclude_from_lars = {},
                   .loss_scale = spec.loss_scale,
                   .plan = job.place.plan,
                   .server_index = job.place.topology.server_index,
                   .core_load_bytes = job.place.core_load_bytes};
  layout.hyper.gradient_scale = gradient_scale_of(spec);
  layout.weight_decay.reserve(spec.keys.size());
  for (const KeySpec& key : spec.keys) {
    layout.weight_decay.push_back(key.weight_decay);
    layout.exclude_from_lars.push_back(key.exclude_from_lars);
  }
  return layout;
}

}  // namespace phub::server
