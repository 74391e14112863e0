// What administrators ask of the table.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/job_table.h"

namespace phub::server {
namespace {

Status unknown(const std::string& name) {
  return {Code::kNotFound,
          fmt::format("job \"{}\" is not known here; `phubctl job list` shows all", name)};
}

Status not_live(const std::string& name) {
  return {Code::kNotFound,
          fmt::format("no live job is named \"{}\"; `phubctl job list` shows all", name)};
}

}  // namespace

Result<std::uint64_t> JobTable::create(const JobSpec& spec) {
  PHUB_RETURN_IF_ERROR(validate(spec));
  auto shared = std::make_shared<const JobSpec>(spec);
  const Lock lock(mutex_);
  if (live_job(spec.name) != nullptr) {
    return Status(
        Code::kAlreadyExists,
        fmt::format("name: job \"{}\" exists; choose another name or close it first", spec.name));
  }
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job,
                        add_job(std::move(shared), /*by_admin=*/true));
  return job->id;
}

Status JobTable::close(const std::string& name) {
  const Lock lock(mutex_);
  const std::shared_ptr<Job> job = live_job(name);
  if (job == nullptr) return not_live(name);
  finish(*job, job->members.empty() ? JobState::kEnded : JobState::kFailed,
         "it was closed by an administrator");
  return {};
}

std::vector<JobView> JobTable::list() const {
  std::vector<JobView> views;
  {
    const Lock lock(mutex_);
    for (const auto& [id, job] : jobs_) views.push_back(view_of(*job));
  }
  for (JobView& view : views) fill_counters(view.id, view.counters);
  return views;
}

Result<JobView> JobTable::inspect(const std::string& name, std::uint64_t job_id) const {
  JobView view;
  {
    const Lock lock(mutex_);
    auto found = jobs_.end();
    if (job_id != 0) {
      found = jobs_.find(job_id);
      if (found == jobs_.end()) return unknown(fmt::format("id {}", job_id));
    } else {
      // Ids grow, and a name is live at most once: the newest of that name is the live one.
      for (auto entry = jobs_.begin(); entry != jobs_.end(); ++entry) {
        if (entry->second->spec->name == name) found = entry;
      }
      if (found == jobs_.end()) return unknown(name);
    }
    view = view_of(*found->second);
  }
  fill_counters(view.id, view.counters);
  return view;
}

Result<PlanView> JobTable::plan(const std::string& name) const {
  PlanView view;
  std::uint32_t cores = 0;
  {
    const Lock lock(mutex_);
    const std::shared_ptr<Job> job = live_job(name);
    if (job == nullptr) return not_live(name);
    view = {.spec = job->spec,
            .plan = job->plan,
            .is_preview = job->plan == nullptr,
            .server_index = job->plan == nullptr ? 0 : job->topology.server_index};
    if (data_plane_ != nullptr) cores = data_plane_->cores();
  }
  if (data_plane_ != nullptr) view.ports = data_plane_->verbs_ports();
  if (!view.is_preview) return view;
  if (view.spec->keys.empty()) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("job \"{}\" has no keys yet: its first worker brings them", name));
  }
  PHUB_ASSIGN_OR_RETURN(Plan preview, make_plan(plan_input(*view.spec, {cores})));
  view.plan = std::make_shared<const Plan>(std::move(preview));
  return view;
}

JobView JobTable::view_of(const Job& job) const {
  JobView view{.id = job.id,
               .epoch = job.epoch,
               .spec = job.spec,
               .state = job.state,
               .reason = job.reason,
               .members = {},
               .counters = job.final_counters};
  for (const auto& [worker, member] : job.members) {
    const auto age = now() - member->last_seen;
    view.members.push_back(
        {.worker = worker,
         .host = member->host,
         .process_id = member->process_id,
         .transport = member->transport,
         .transport_reason = member->transport_reason.value_or(""),
         .heartbeat_age = std::chrono::duration_cast<std::chrono::milliseconds>(age),
         .has_left = member->has_left});
  }
  return view;
}

// REQUIRES: the mutex is not held: the data plane has locks of its own.
void JobTable::fill_counters(std::uint64_t job_id, JobCounters& counters) const {
  if (data_plane_ == nullptr) return;
  if (const auto current = data_plane_->job_counters(job_id)) counters = *current;
}

}  // namespace phub::server
