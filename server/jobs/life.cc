#include "server/jobs/life.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"
#include "common/job/check.h"
#include "common/job/text.h"
#include "common/rendezvous/end_reasons.h"
#include "server/job/rack_links.h"

namespace phub::server {
namespace {

constexpr std::chrono::seconds kUnjoinedMax{60};  // that a job waits which its workers restored

constexpr std::chrono::seconds kSaveDeadline{30};  // of a write to the disk

// Nobody has joined it and nothing is made of it: it could be another job as well.
bool is_untouched(const Job& job) {
  return (job.by_admin || job.unjoined_until) && job.state == JobState::kWaiting &&
         job.members.empty() && job.place.memory == Memory::kNone && job.saved != Saved::kWriting;
}

bool is_there(const Member& member) { return !member.has_left && !member.was_lost; }

// Racks that do not wait for each other end after steps of their own.
bool ends_by_rack(const Job& job) { return job.spec->rack_local.goes_on(); }

// The worker that says after which step this rack's workers stop: worker 0, or the first of a rack
// that ends by itself.
bool leads_end(const Job& job, const Member& member) {
  return member.rack.empty() && member.index == (ends_by_rack(job) ? job.rack.first_worker : 0);
}

bool knows(const Job& job, const Member& member) {
  return !is_there(member) || member.known_last_step == job.end.last_step;
}

}  // namespace

Result<std::shared_ptr<Job>> JobLife::place_for(const JobName& name, bool restores) const {
  std::shared_ptr<Job> job = index_.find_live(name);
  if (job == nullptr || (restores && is_untouched(*job))) return job;
  return Status(Code::kAlreadyExists,
                fmt::format("name: job \"{}\" exists{}; choose another name or close it first",
                            to_string(name), restores ? client::kHasWorkers : ""));
}

Result<std::shared_ptr<Job>> JobLife::add(const std::string& tenant,
                                          std::shared_ptr<const JobSpec> spec, bool by_admin) {
  PHUB_RETURN_IF_ERROR(index_.admit_one_more());
  auto job = std::make_shared<Job>();
  PHUB_ASSIGN_OR_RETURN(job->rack, rack_of(*spec, index_.options.rack));
  if (!spec->racks.empty() && index_.options.links != nullptr) {
    PHUB_RETURN_IF_ERROR(index_.options.links->check_racks(spec->racks));
  }
  PHUB_RETURN_IF_ERROR(usage_.admit_streams(*spec, job->rack));
  PHUB_ASSIGN_OR_RETURN(job->tenant, usage_.admit_job(tenant, connections_of(*spec, job->rack)));
  PHUB_ASSIGN_OR_RETURN(job->id, saved_.take_id());
  job->spec = std::move(spec);
  job->by_admin = by_admin;
  index_.add(job);
  spdlog::info("event=job_created job={} id={} workers={} rule={} wire_type={}",
               log_value(label(*job)), job->id, job->spec->workers, name_of(job->spec->rule),
               name_of(job->spec->wire_type));
  return job;
}

Result<std::uint64_t> JobLife::create(const JobSpec& spec, const std::string& tenant,
                                      const std::optional<Digest>& nonce_hash,
                                      const std::string& snapshot, bool by_workers) {
  PHUB_RETURN_IF_ERROR(validate(spec));
  auto shared = std::make_shared<const JobSpec>(spec);
  PHUB_ASSIGN_OR_RETURN(auto snapshot_load, snapshot_load_bytes(snapshot));
  JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(std::shared_ptr<Job> job,
                        place_for({tenant, spec.name}, /*restores=*/!snapshot.empty()));
  if (job != nullptr) {
    PHUB_RETURN_IF_ERROR(start_instead(*job, std::move(shared)));
  } else {
    PHUB_ASSIGN_OR_RETURN(job, add(tenant, std::move(shared), /*by_admin=*/!by_workers));
    job->nonce_hash = nonce_hash;
  }
  job->start = {.file = snapshot, .core_load_bytes = std::move(snapshot_load)};
  if (!job->by_admin) {
    job->unjoined_until = index_.now() + kUnjoinedMax;
    return job->id;
  }
  const Status saved = saved_.save(lock, *job);
  if (saved.ok()) return job->id;
  if (is_live(*job)) finish(*job, JobState::kFailed, "it could not be saved");
  return saved;
}

Status JobLife::start_instead(Job& job, std::shared_ptr<const JobSpec> spec) {
  PHUB_ASSIGN_OR_RETURN(const JobRack rack, rack_of(*spec, index_.options.rack));
  PHUB_RETURN_IF_ERROR(usage_.admit_streams(*spec, rack));
  PHUB_ASSIGN_OR_RETURN(job.tenant,
                        usage_.admit_job(job.tenant.name, connections_of(*spec, rack), &job));
  job.rack = rack;
  job.spec = std::move(spec);
  spdlog::info("event=job_starts_from_snapshot job={} id={} workers={}", log_value(label(job)),
               job.id, job.spec->workers);
  return {};
}

Status JobLife::admit_restored(const JobSpec& spec, const std::string& tenant,
                               std::uint64_t bytes) const {
  const JobIndex::Lock lock(index_);
  PHUB_RETURN_IF_ERROR(validate(spec));
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> instead_of,
                        place_for({tenant, spec.name}, /*restores=*/true));
  if (instead_of == nullptr) PHUB_RETURN_IF_ERROR(index_.admit_one_more());
  PHUB_ASSIGN_OR_RETURN(const JobRack rack, rack_of(spec, index_.options.rack));
  PHUB_RETURN_IF_ERROR(usage_.admit_streams(spec, rack));
  PHUB_ASSIGN_OR_RETURN(const Tenant owner,
                        usage_.admit_job(tenant, connections_of(spec, rack), instead_of.get()));
  return admit_memory(owner, usage_.without(tenant, nullptr), bytes, "the restored job");
}

Result<std::vector<std::uint64_t>> JobLife::snapshot_load_bytes(const std::string& file) const {
  const SnapshotStore* const snapshots = index_.options.snapshots;
  if (file.empty() || snapshots == nullptr) return std::vector<std::uint64_t>();
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, snapshots->head(file));
  return std::move(head.core_load_bytes);
}

void JobLife::restore(const std::vector<StoredJob>& jobs) {
  const JobIndex::Lock lock(index_);
  for (const StoredJob& stored : jobs) {
    const Result<std::shared_ptr<Job>> job = restored(stored);
    if (!job) {
      spdlog::warn("event=job_not_restored id={} reason={}", stored.id,
                   log_value(job.error().message()));
      continue;
    }
    index_.add(*job);
    spdlog::info("event=job_restored job={} id={} epoch={}", log_value(label(**job)), stored.id,
                 stored.epoch);
  }
}

Result<std::shared_ptr<Job>> JobLife::restored(const StoredJob& stored) const {
  auto job = std::make_shared<Job>();
  job->id = stored.id;
  job->epoch = stored.epoch;
  PHUB_ASSIGN_OR_RETURN(JobSpec spec, spec_from_bytes(stored.spec));
  PHUB_ASSIGN_OR_RETURN(job->rack, rack_of(spec, index_.options.rack));
  job->spec = std::make_shared<const JobSpec>(std::move(spec));
  if (const TenantDirectory* const tenants = index_.options.tenants) {
    PHUB_ASSIGN_OR_RETURN(job->tenant, tenants->find(stored.tenant));
  }
  job->by_admin = true;
  job->saved = Saved::kYes;
  job->nonce_hash = stored.nonce_hash;
  job->start.file = stored.snapshot;
  // Without its snapshot the first worker that is ready is told so.
  auto snapshot_load = snapshot_load_bytes(stored.snapshot);
  if (snapshot_load) job->start.core_load_bytes = std::move(*snapshot_load);
  return job;
}

void JobLife::note_snapshot(std::uint64_t job_id, const Status& outcome) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr) return;
  if (outcome.ok()) {
    ++job->snapshots.taken;
    return;
  }
  ++job->snapshots.failed;
  job->snapshots.last_failure = outcome.message();
}

// Its workers would go on with the job until they wait for one of these keys.
Status JobLife::check_ends_alone(const Job& job) const {
  const std::shared_ptr<Job> base = index_.find(job.base_job_id);
  if (base == nullptr || !is_live(*base)) return {};
  return {Code::kFailedPrecondition,
          fmt::format("name: the keys of job \"{0}\" were added to job \"{1}\", and end with it; "
                      "close job \"{1}\"",
                      label(job), label(*base))};
}

Status JobLife::close(const JobName& name) {
  JobIndex::Lock lock(index_);
  std::shared_ptr<Job> job;
  // The store can forget only what it has.
  const bool is_saved = index_.changed.wait_for(lock, kSaveDeadline, [&] {
    job = index_.find_live(name);
    return job == nullptr || job->saved != Saved::kWriting;
  });
  if (!is_saved) return {Code::kDeadlineExceeded, "the job is still being saved; try again"};
  if (job == nullptr) return no_live_job(name);
  PHUB_RETURN_IF_ERROR(check_ends_alone(*job));
  if (job->saved == Saved::kYes) {
    PHUB_RETURN_IF_ERROR(saved_.forget(lock, *job));
    if (!is_live(*job)) return {};  // it ended by itself meanwhile
  }
  finish(*job, job->members.empty() ? JobState::kEnded : JobState::kFailed,
         std::string(client::kClosedByAdministrator));
  return {};
}

void JobLife::close_all_of(std::uint32_t tenant_id) {
  const JobIndex::Lock lock(index_);
  for (const std::shared_ptr<Job>& job : index_.all_live()) {
    const bool is_its = job->tenant.id == tenant_id && is_live(*job);  // not failed with another
    if (is_its) finish(*job, JobState::kFailed, std::string(client::kTenantDeleted));
  }
  for (const auto& [id, job] : index_.all()) {
    const bool is_its = job->tenant.id == tenant_id && !is_live(*job);
    if (is_its) job->tenant.name = name_of_deleted(job->tenant);
  }
}

void JobLife::stop_waiting(const Identity& identity, std::uint64_t number) {
  const JobIndex::Lock lock(index_);
  const StartBarrier::Wait* const wait = starts_.find({identity.job_id, identity.worker});
  if (wait == nullptr || wait->number != number) return;
  lose(*index_.find(identity.job_id), *std::shared_ptr(wait->member),
       "it stopped waiting for the start");
}

void JobLife::end_late_starts() {
  const JobIndex::Lock lock(index_);
  while (const auto key = starts_.first_due()) {
    const std::shared_ptr<Job> job = index_.find(key->job_id);
    const std::string reason =
        fmt::format("it did not start within {} ms: {}", starts_.find(*key)->timeout.count(),
                    describe_missing(*job, index_.cores()));
    starts_.end(*key,
                {Code::kDeadlineExceeded, fmt::format("job \"{}\": {}", label(*job), reason)});
    // Who comes yet would make the set anew, and wait for those who have given up.
    const std::shared_ptr<Job> base = index_.find(job->base_job_id);
    if (base != nullptr && base->refused_keys.empty()) {
      base->refused_keys = fmt::format("job \"{}\": {}", label(*job), reason);
    }
    finish(*job, JobState::kFailed, reason);
  }
}

void JobLife::finish(Job& job, JobState state, const std::string& reason) {
  index_.end(job, state, reason);
  if (!job.spec->racks.empty() && index_.options.links != nullptr) {
    index_.options.links->close(job.id, state == JobState::kFailed ? reason : std::string());
  }
  saved_.note_end(job);
  starts_.end_all_of(job, job_is_over(job));
  if (state == JobState::kFailed) {
    fail_added_to(job.id, "the job that its keys were added to has failed: " + reason);
  }
  index_.forget_oldest();
}

void JobLife::fail_added_to(std::uint64_t job_id, const std::string& reason, bool waiting_only) {
  for (const std::shared_ptr<Job>& added : index_.all_live()) {
    if (added->base_job_id != job_id) continue;
    if (waiting_only && added->state != JobState::kWaiting) continue;
    finish(*added, JobState::kFailed, reason);
  }
}

void JobLife::lose(Job& job, Member& member, std::string_view reason) {
  member.was_lost = true;
  finish(job, JobState::kFailed, fmt::format("{} was lost: {}", describe(member), reason));
}

void JobLife::tell_racks_of_end(Job& job) {
  if (job.end.racks_told || job.spec->racks.empty() || index_.options.links == nullptr) return;
  const bool all_know = std::all_of(job.members.begin(), job.members.end(), [&](const auto& entry) {
    return !entry.second->rack.empty() || knows(job, *entry.second);
  });
  if (!all_know) return;
  job.end.racks_told = true;
  index_.options.links->know_end(job.id, job.end.last_step);
}

void JobLife::announce_end(Job& job, const std::string& reason) {
  if (!is_live(job) || !job.end.reason.empty() || reason.empty()) return;
  job.end.reason = reason;
  spdlog::info("event=end_planned job={} id={} reason={}", log_value(label(job)), job.id,
               log_value(reason));
}

void JobLife::set_last_step(Job& job, std::uint64_t last_step) {
  if (!is_live(job) || job.end.reason.empty() || job.end.last_step != 0 || last_step == 0) return;
  job.end.last_step = last_step;
  spdlog::info("event=last_step job={} id={} step={}", log_value(label(job)), job.id, last_step);
}

void JobLife::take_end_words(Job& job, Member& member, const EndWords& words) {
  announce_end(job, words.wanted);
  if (leads_end(job, member)) set_last_step(job, words.last_step);
  if (words.known_last_step != 0) member.known_last_step = words.known_last_step;
  if (job.end.last_step != 0) tell_racks_of_end(job);
}

bool JobLife::all_know_last_step(const Job& job, const Member& asking) {
  if (job.end.last_step == 0) return false;
  return std::all_of(job.members.begin(), job.members.end(), [&](const auto& entry) {
    const bool is_other_rack = !entry.second->rack.empty() && ends_by_rack(job);
    return is_other_rack || entry.second.get() == &asking || knows(job, *entry.second);
  });
}

}  // namespace phub::server
