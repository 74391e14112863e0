#include "server/jobs/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/plan/plan.h"
#include "server/jobs/core_load.h"

namespace phub::server {
namespace {

// Of a plan that is shown: some 20 MB as a message, ten times that while it is made.
constexpr std::uint64_t kShownChunksMax = std::uint64_t{1} << 20;

Status check_shown(const PlanSize& plan) {
  if (plan.chunks <= kShownChunksMax) return {};
  return {Code::kResourceExhausted,
          fmt::format(
              "the plan has {} chunks, and at most {} are shown; a larger chunk_bytes makes fewer",
              plan.chunks, kShownChunksMax)};
}

}  // namespace

JobView view_of(const Job& job, TimePoint now) {
  JobView view{.id = job.id,
               .epoch = job.epoch,
               .tenant_id = job.tenant.id,
               .tenant = job.tenant.name,
               .spec = job.spec,
               .state = job.state,
               .reason = job.reason,
               .members = {},
               .rack = job.rack,
               .counters = job.final_counters,
               .snapshots = job.snapshots};
  for (const auto& [worker, member] : job.members) {
    const auto age = now - member->last_seen;
    view.members.push_back(
        {.worker = worker,
         .index = member->index,
         .rack = member->rack,
         .host = member->host,
         .process_id = member->process_id,
         .transport = member->path.transport,
         .transport_reason = member->path.reason.value_or(""),
         .heartbeat_age = std::chrono::duration_cast<std::chrono::milliseconds>(age),
         .has_left = member->has_left,
         .was_lost = member->was_lost,
         .step_waits = member->step_waits});
  }
  return view;
}

std::vector<JobView> JobViews::list() const {
  std::vector<std::shared_ptr<const Job>> jobs;
  {
    const JobIndex::Lock lock(index_);
    for (const auto& [id, job] : index_.all()) jobs.push_back(job);
  }
  std::vector<JobView> views;
  for (const auto& job : jobs) {
    // One at a time: workers' calls must not wait for a thousand of them.
    const JobIndex::Lock lock(index_);
    views.push_back(view_of(*job, index_.now()));
  }
  for (JobView& view : views) fill_counters(view.id, view.counters);
  return views;
}

Result<JobView> JobViews::inspect(const JobName& name, std::uint64_t job_id) const {
  JobView view;
  {
    const JobIndex::Lock lock(index_);
    std::shared_ptr<Job> job = index_.find(job_id);
    if (job_id == 0) {
      // Ids grow, and a name is live at most once: the newest of that name is the live one.
      for (const auto& [id, other] : index_.all()) {
        if (name_of(*other) == name) job = other;
      }
    }
    if (job == nullptr) {
      return unknown_job(job_id == 0 ? to_string(name) : fmt::format("id {}", job_id));
    }
    view = view_of(*job, index_.now());
  }
  fill_counters(view.id, view.counters);
  return view;
}

Result<PlanView> JobViews::plan(const JobName& name) const {
  PlanView view;
  std::vector<std::uint64_t> core_load;
  {
    const JobIndex::Lock lock(index_);
    const std::shared_ptr<Job> job = index_.find_live(name);
    if (job == nullptr) return no_live_job(name);
    view = {.spec = job->spec,
            .plan = job->place.plan,
            .is_preview = job->place.plan == nullptr,
            .server_index = job->place.plan == nullptr ? 0 : job->place.topology.server_index};
    core_load = job->members.empty() ? load_without(index_, *job) : job->place.core_load_bytes;
  }
  if (index_.data_plane() != nullptr) view.ports = index_.data_plane()->verbs_ports();
  if (!view.is_preview) {
    PHUB_RETURN_IF_ERROR(check_shown(size_of(*view.plan)));
    return view;
  }
  if (view.spec->keys.empty()) {
    return Status(
        Code::kFailedPrecondition,
        fmt::format("job \"{}\" has no keys yet: its first worker brings them", to_string(name)));
  }
  const PlanInput input = plan_input(*view.spec, {index_.cores()}, core_load);
  PHUB_RETURN_IF_ERROR(check_shown(size_of_plan(input)));
  PHUB_ASSIGN_OR_RETURN(Plan preview, make_plan(input));
  view.plan = std::make_shared<const Plan>(std::move(preview));
  return view;
}

Result<std::string> JobViews::tenant_of(const Identity& identity) const {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  return caller.job->tenant.name;
}

Result<std::string> JobViews::tenant_of(const Ticket& ticket) const {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, index_.find(ticket));
  return job->tenant.name;
}

std::optional<std::string> JobViews::tenant_of(std::uint64_t job_id) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  return job == nullptr ? std::nullopt : std::optional(job->tenant.name);
}

bool JobViews::is_draining() const {
  const JobIndex::Lock lock(index_);
  return index_.is_draining();
}

std::vector<NeededSnapshots> JobViews::needed_snapshots() const {
  const JobIndex::Lock lock(index_);
  std::vector<NeededSnapshots> needed;
  for (const auto& job : index_.all_live()) {
    needed.push_back(
        {.tenant_id = job->tenant.id, .job = job->spec->name, .starts_from = job->start.file});
  }
  return needed;
}

std::size_t JobViews::live_jobs() const {
  const JobIndex::Lock lock(index_);
  return index_.live_jobs();
}

std::vector<std::uint64_t> JobViews::core_load_bytes(std::uint64_t job_id) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  return job == nullptr ? CoreLoad() : job->place.core_load_bytes;
}

std::uint32_t JobViews::index_of(const Identity& identity) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(identity.job_id);
  return identity.worker + (job == nullptr ? 0 : job->rack.first_worker);
}

PeersView JobViews::peers_of(const Identity& identity) const {
  const JobIndex::Lock lock(index_);
  const auto caller = index_.authenticate(identity);
  if (!caller || caller->member->peer_port == 0 || !caller->job->peer_key) return {};
  PeersView view{.peers = {}, .key = *caller->job->peer_key};
  for (const auto& [seat, member] : caller->job->members) {
    // Also one that has left or was lost since: everybody is told the same list.
    if (!member->rack.empty() || member->peer_port == 0) continue;
    view.peers.push_back({member->index, member->peer_host, member->peer_port});
  }
  std::ranges::sort(view.peers, {}, &PeerView::worker);
  return view;
}

std::uint64_t JobViews::rounds_before(std::uint64_t job_id) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  return job == nullptr ? 0 : job->start.rounds_before;
}

SampleLedger JobViews::samples(std::uint64_t job_id) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr) return {};
  return job->samples.is_known() ? job->samples : job->start.samples;
}

SampleLedger JobViews::samples_before(std::uint64_t job_id) const {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  return job == nullptr ? SampleLedger() : job->start.samples;
}

// REQUIRES: the mutex is not held: the data plane has locks of its own.
void JobViews::fill_counters(std::uint64_t job_id, JobCounters& counters) const {
  if (index_.data_plane() == nullptr) return;
  if (const auto current = index_.data_plane()->job_counters(job_id)) {
    counters = *current;
    return;
  }
  const JobIndex::Lock lock(index_);  // it may have been released since it was looked at
  if (const std::shared_ptr<Job> job = index_.find(job_id)) counters = job->final_counters;
}

}  // namespace phub::server
