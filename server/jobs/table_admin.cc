// What administrators ask of the table.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"
#include "common/plan/size.h"
#include "server/jobs/table.h"

namespace phub::server {
namespace {

constexpr std::chrono::seconds kSaveDeadline{30};  // of a write to the disk
// Of a plan that is shown: some 20 MB as a message, ten times that while it is made.
constexpr std::uint64_t kShownChunksMax = std::uint64_t{1} << 20;

Status check_shown(const PlanSize& plan) {
  if (plan.chunks <= kShownChunksMax) return {};
  return {Code::kResourceExhausted,
          fmt::format("the plan has {} chunks, and at most {} are shown; a larger chunk_bytes "
                      "makes fewer",
                      plan.chunks, kShownChunksMax)};
}

}  // namespace

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

Status JobTable::check_free(const JobName& name) const {
  if (live_job(name) == nullptr) return {};
  return {Code::kAlreadyExists,
          fmt::format("name: job \"{}\" exists; choose another name or close it first",
                      to_string(name))};
}

Result<std::uint64_t> JobTable::create(const JobSpec& spec, const std::string& tenant,
                                       const std::optional<Digest>& nonce_hash,
                                       const std::string& snapshot) {
  PHUB_RETURN_IF_ERROR(validate(spec));
  auto shared = std::make_shared<const JobSpec>(spec);
  PHUB_ASSIGN_OR_RETURN(auto snapshot_load, snapshot_load_bytes(snapshot));
  AnsweringLock lock(*this);
  PHUB_RETURN_IF_ERROR(check_free({tenant, spec.name}));
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job,
                        add_job(tenant, std::move(shared), /*by_admin=*/true));
  job->nonce_hash = nonce_hash;
  job->snapshot = snapshot;
  job->snapshot_load_bytes = std::move(snapshot_load);
  if (options_.journal == nullptr) return job->id;
  job->saved = Saved::kWriting;
  const SavedJob saved{.id = job->id,
                       .epoch = job->epoch,
                       .tenant_id = job->tenant.id,
                       .tenant = tenant,
                       .spec = spec,
                       .nonce_hash = nonce_hash,
                       .snapshot = snapshot};
  lock.unlock();
  const Status written = options_.journal->created(saved);
  lock.lock();
  job->saved = written.ok() ? Saved::kYes : Saved::kNo;
  changed_.notify_all();
  if (!written.ok()) {
    if (is_live(*job)) finish(*job, JobState::kFailed, "it could not be saved");
    return written;
  }
  if (!is_live(*job) && !job->ended_by_daemon) journal_ends_.push_back(job->id);
  return job->id;
}

Result<std::vector<std::uint64_t>> JobTable::snapshot_load_bytes(const std::string& file) const {
  if (file.empty() || options_.snapshots == nullptr) return std::vector<std::uint64_t>();
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, options_.snapshots->head(file));
  return std::move(head.core_load_bytes);
}

void JobTable::restore(const std::vector<SavedJob>& jobs) {
  const Lock lock(mutex_);
  for (const SavedJob& saved : jobs) {
    Result<Tenant> tenant = options_.tenants == nullptr ? Result<Tenant>(Tenant())
                                                        : options_.tenants->find(saved.tenant);
    if (!tenant) {
      spdlog::warn("event=job_not_restored id={} reason={}", saved.id,
                   log_value(tenant.error().message()));
      continue;
    }
    auto job = std::make_shared<Job>();
    job->id = saved.id;
    job->epoch = saved.epoch;
    job->tenant = std::move(*tenant);
    job->spec = std::make_shared<const JobSpec>(saved.spec);
    job->by_admin = true;
    job->saved = Saved::kYes;
    job->nonce_hash = saved.nonce_hash;
    job->snapshot = saved.snapshot;
    // Without its snapshot the first worker that is ready is told so.
    auto snapshot_load = snapshot_load_bytes(saved.snapshot);
    if (snapshot_load) job->snapshot_load_bytes = std::move(*snapshot_load);
    live_by_name_[name_of(*job)] = job->id;
    jobs_[job->id] = job;
    spdlog::info("event=job_restored job={} id={} epoch={}", log_value(label(*job)), job->id,
                 job->epoch);
  }
}

void JobTable::close_all_of(std::uint32_t tenant_id) {
  const AnsweringLock lock(*this);
  for (const std::shared_ptr<Job>& job : all_live()) {
    if (job->tenant.id == tenant_id) finish(*job, JobState::kFailed, "its tenant was deleted");
  }
  for (const auto& [id, job] : jobs_) {
    const bool is_its = job->tenant.id == tenant_id && !is_live(*job);
    if (is_its) job->tenant.name = name_of_deleted(job->tenant);
  }
}

Status JobTable::close(const JobName& name) {
  AnsweringLock lock(*this);
  std::shared_ptr<Job> job;
  // The journal can forget only what it has.
  const bool is_saved = changed_.wait_for(lock, kSaveDeadline, [&] {
    job = live_job(name);
    return job == nullptr || job->saved != Saved::kWriting;
  });
  if (!is_saved) return {Code::kDeadlineExceeded, "the job is still being saved; try again"};
  if (job == nullptr) return no_live_job(name);
  if (job->saved == Saved::kYes) {
    lock.unlock();
    const Status forgotten = options_.journal->ended(job->id);
    lock.lock();
    PHUB_RETURN_IF_ERROR(forgotten);
    job->saved = Saved::kNo;
    if (!is_live(*job)) return {};  // it ended by itself meanwhile
  }
  finish(*job, job->members.empty() ? JobState::kEnded : JobState::kFailed,
         "it was closed by an administrator");
  return {};
}

std::vector<JobView> JobTable::list() const {
  std::vector<std::shared_ptr<const Job>> jobs;
  {
    const Lock lock(mutex_);
    for (const auto& [id, job] : jobs_) jobs.push_back(job);
  }
  std::vector<JobView> views;
  for (const auto& job : jobs) {
    // One at a time: workers' calls must not wait for a thousand of them.
    const Lock lock(mutex_);
    views.push_back(view_of(*job));
  }
  for (JobView& view : views) fill_counters(view.id, view.counters);
  return views;
}

Result<JobView> JobTable::inspect(const JobName& name, std::uint64_t job_id) const {
  JobView view;
  {
    const Lock lock(mutex_);
    auto found = jobs_.end();
    if (job_id != 0) {
      found = jobs_.find(job_id);
      if (found == jobs_.end()) return unknown_job(fmt::format("id {}", job_id));
    } else {
      // Ids grow, and a name is live at most once: the newest of that name is the live one.
      for (auto entry = jobs_.begin(); entry != jobs_.end(); ++entry) {
        if (name_of(*entry->second) == name) found = entry;
      }
      if (found == jobs_.end()) return unknown_job(to_string(name));
    }
    view = view_of(*found->second);
  }
  fill_counters(view.id, view.counters);
  return view;
}

Result<PlanView> JobTable::plan(const JobName& name) const {
  PlanView view;
  std::vector<std::uint64_t> core_load;
  std::uint32_t cores = 0;
  {
    const Lock lock(mutex_);
    const std::shared_ptr<Job> job = live_job(name);
    if (job == nullptr) return no_live_job(name);
    view = {.spec = job->spec,
            .plan = job->plan,
            .is_preview = job->plan == nullptr,
            .server_index = job->plan == nullptr ? 0 : job->topology.server_index};
    if (data_plane_ != nullptr) cores = data_plane_->cores();
    core_load = job->members.empty() ? core_load_without(*job) : job->core_load_bytes;
  }
  if (data_plane_ != nullptr) view.ports = data_plane_->verbs_ports();
  if (!view.is_preview) {
    PHUB_RETURN_IF_ERROR(check_shown(size_of(*view.plan)));
    return view;
  }
  if (view.spec->keys.empty()) {
    return Status(
        Code::kFailedPrecondition,
        fmt::format("job \"{}\" has no keys yet: its first worker brings them", to_string(name)));
  }
  const PlanInput input = plan_input(*view.spec, {cores}, core_load);
  PHUB_RETURN_IF_ERROR(check_shown(size_of_plan(input)));
  PHUB_ASSIGN_OR_RETURN(Plan preview, make_plan(input));
  view.plan = std::make_shared<const Plan>(std::move(preview));
  return view;
}

JobView JobTable::view_of(const Job& job) const {
  JobView view{.id = job.id,
               .epoch = job.epoch,
               .tenant_id = job.tenant.id,
               .tenant = job.tenant.name,
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
