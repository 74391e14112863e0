// MembershipListener: joining, identity, leaving, and what administrators ask for.
#include "server/jobs/table.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"

namespace phub::server {
namespace {

Result<Secret> make_secret() {
  Secret secret{};
  if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1) {
    return Status(Code::kInternal, "the system gives no random bytes for a worker's secret");
  }
  return secret;
}

constexpr std::uint64_t kIdsAtOnce = 64;

// Secrets and digests.
bool same(const std::array<std::uint8_t, 32>& ours, const std::array<std::uint8_t, 32>& theirs) {
  return CRYPTO_memcmp(ours.data(), theirs.data(), ours.size()) == 0;
}

// The lowest index that no member has. REQUIRES: there is one.
std::uint32_t lowest_free(const Job& job) {
  std::uint32_t worker = 0;
  while (job.members.count(worker) != 0) ++worker;
  return worker;
}

Status full(const Job& job) {
  return {Code::kAlreadyExists,
          fmt::format("job \"{}\" has all of its {} workers; wait for it to end, or choose another "
                      "name or more workers",
                      label(job), job.spec->workers)};
}

}  // namespace

void JobTable::attach(DataPlane& data_plane) {
  const Lock lock(mutex_);
  data_plane_ = &data_plane;
}

Result<Identity> JobTable::join(const JoinArguments& arguments) {
  PHUB_RETURN_IF_ERROR(validate(*arguments.spec));
  if (arguments.spec->keys.empty()) {
    return Status(Code::kInvalidArgument, "keys: a worker must join with at least one key");
  }
  PHUB_ASSIGN_OR_RETURN(const Secret secret, make_secret());
  Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, job_to_join(lock, arguments));
  return admit(*job, arguments, secret);
}

// Specs may have a million keys, so they are compared without the mutex.
Result<std::shared_ptr<Job>> JobTable::job_to_join(Lock& lock, const JoinArguments& arguments) {
  const std::shared_ptr<const JobSpec>& spec = arguments.spec;
  while (true) {
    std::shared_ptr<Job> job;
    if (arguments.ticket) {
      PHUB_ASSIGN_OR_RETURN(job, job_of(*arguments.ticket));
    } else {
      job = live_job({arguments.tenant, spec->name});
      if (job == nullptr) return add_job(arguments.tenant, spec, /*by_admin=*/false);
    }
    const std::shared_ptr<const JobSpec> existing = job->spec;
    lock.unlock();
    const Status agreement = compare(*existing, *spec);
    lock.lock();
    if (!agreement.ok()) return agreement.with_context(fmt::format("job \"{}\"", label(*job)));
    if (!is_live(*job) || job->spec != existing) continue;
    if (existing->name != spec->name) {
      return Status(Code::kInvalidArgument,
                    fmt::format("name: job id {} is \"{}\", not \"{}\"; join it by its name",
                                job->id, existing->name, spec->name));
    }
    if (existing->keys.empty()) job->spec = spec;
    return job;
  }
}

// Says the same whatever is wrong: a stranger learns nothing of the jobs here.
Result<std::shared_ptr<Job>> JobTable::job_of(const Ticket& ticket) const {
  const auto found = jobs_.find(ticket.job_id);
  const bool is_known =
      found != jobs_.end() && is_live(*found->second) && found->second->nonce_hash;
  const Digest expected = is_known ? *found->second->nonce_hash : Digest{};
  if (same(expected, ticket.nonce_hash) && is_known) return found->second;
  return Status(Code::kUnauthenticated,
                "job_id and nonce are not those of a job that waits here; `phubctl job create` "
                "prints them");
}

// The reaper keeps ids in stock; only when it is behind the journal is written under the mutex.
Result<std::uint64_t> JobTable::take_id() {
  if (next_id_ == ids_end_) {
    if (options_.journal != nullptr) {
      PHUB_ASSIGN_OR_RETURN(next_id_, options_.journal->reserve_ids(kIdsAtOnce));
    }
    ids_end_ = next_id_ + kIdsAtOnce;
  }
  return next_id_++;
}

// Ids that do not follow those in stock are left out: somebody was faster.
void JobTable::stock_ids(Lock& lock) {
  if (options_.journal == nullptr || ids_end_ - next_id_ > kIdsAtOnce / 2) return;
  lock.unlock();
  const Result<std::uint64_t> first = options_.journal->reserve_ids(kIdsAtOnce);
  lock.lock();
  if (first && *first == ids_end_) ids_end_ += kIdsAtOnce;
}

Status JobTable::admit_live_job() const {
  if (is_draining_) {
    return {Code::kUnavailable, "the server is draining and takes no new jobs; use another"};
  }
  if (live_by_name_.size() < options_.live_jobs_max) return {};
  return {
      Code::kResourceExhausted,
      fmt::format("the server has {} jobs, no more are allowed; close one", live_by_name_.size())};
}

Result<std::shared_ptr<Job>> JobTable::add_job(const std::string& tenant,
                                               std::shared_ptr<const JobSpec> spec, bool by_admin) {
  PHUB_RETURN_IF_ERROR(admit_live_job());
  PHUB_ASSIGN_OR_RETURN(Tenant owner, admit_to_tenant(tenant, spec->workers));
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t id, take_id());
  auto job = std::make_shared<Job>();
  job->id = id;
  job->tenant = std::move(owner);
  job->spec = std::move(spec);
  job->by_admin = by_admin;
  live_by_name_[name_of(*job)] = job->id;
  jobs_[job->id] = job;
  spdlog::info("event=job_created job={} id={} workers={} rule={} wire_type={}",
               log_value(label(*job)), job->id, job->spec->workers, name_of(job->spec->rule),
               name_of(job->spec->wire_type));
  return job;
}

Result<Identity> JobTable::admit(Job& job, const JoinArguments& arguments, const Secret& secret) {
  if (job.state != JobState::kWaiting) return full(job);
  const std::uint32_t workers = job.spec->workers;
  if (arguments.worker_index < -1 || arguments.worker_index >= static_cast<int>(workers)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("worker_index: {}, allowed are 0 to {}, or -1 to let the server choose",
                    arguments.worker_index, workers - 1));
  }
  if (arguments.worker_index >= 0) {
    const auto taken = job.members.find(static_cast<std::uint32_t>(arguments.worker_index));
    if (taken != job.members.end()) {
      return Status(
          Code::kAlreadyExists,
          fmt::format("worker_index: {} of job \"{}\" is taken: {}; choose another, or -1 "
                      "at every worker",
                      arguments.worker_index, label(job), describe(*taken->second)));
    }
  }
  if (job.members.size() >= workers) return full(job);
  if (job.members.empty()) fix_core_load(job);
  auto member = std::make_shared<Member>(full_heartbeats());
  member->worker = arguments.worker_index >= 0 ? static_cast<std::uint32_t>(arguments.worker_index)
                                               : lowest_free(job);
  member->host = arguments.host;
  member->process_id = arguments.process_id;
  member->secret = secret;
  member->secret_issued = now();
  member->last_seen = now();
  job.members[member->worker] = member;
  spdlog::info("event=joined job={} id={} worker={} host={} pid={}", log_value(label(job)), job.id,
               member->worker, log_value(member->host), member->process_id);
  changed_.notify_all();
  return Identity{.job_id = job.id, .epoch = job.epoch, .worker = member->worker, .secret = secret};
}

Result<JobTable::Caller> JobTable::authenticate(const Identity& identity) const {
  const auto found = jobs_.find(identity.job_id);
  if (found == jobs_.end()) {
    return Status(
        Code::kNotFound,
        fmt::format("job id {} is not known here; was the server restarted?", identity.job_id));
  }
  Caller caller{.job = found->second, .member = nullptr};
  if (identity.epoch < caller.job->epoch) {
    return Status(Code::kNotFound,
                  fmt::format("epoch {} of job id {} is over, it is in epoch {}; was the server "
                              "restarted?",
                              identity.epoch, identity.job_id, caller.job->epoch));
  }
  const auto member = caller.job->members.find(identity.worker);
  if (member == caller.job->members.end() || caller.job->epoch != identity.epoch ||
      !same(member->second->secret, identity.secret)) {
    return Status(Code::kPermissionDenied,
                  fmt::format("the secret is not that of worker {} of job id {} in epoch {}",
                              identity.worker, identity.job_id, identity.epoch));
  }
  caller.member = member->second;
  return caller;
}

TokenBucket JobTable::full_heartbeats() const {
  return {heartbeats_per_second(), kHeartbeatsAtOnce, now()};
}

// A client asks five times in a deadline, and 50 times a second while it looks for why a connection
// has closed.
double JobTable::heartbeats_per_second() const {
  constexpr double kLeast = 100;
  constexpr double kInDeadline = 50;
  return kLeast + kInDeadline / std::chrono::duration<double>(options_.heartbeat_deadline).count();
}

Result<Heartbeat> JobTable::heartbeat(const Identity& identity) {
  const Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  caller.member->last_seen = now();  // also of one that asks too often: it lives
  // That its job is over every member is told, however often it has asked.
  const bool is_news = !is_live(*caller.job) && !caller.member->was_told;
  const auto wait = caller.member->heartbeats.wait(now());
  if (wait > std::chrono::steady_clock::duration::zero() && !is_news) {
    return Status(
        Code::kResourceExhausted,
        fmt::format(
            "worker {} of job \"{}\" has sent {} heartbeats in a burst, and may send {:.0f} a "
            "second; send one in each heartbeat_interval_ms that the join gave",
            identity.worker, label(*caller.job), kHeartbeatsAtOnce, heartbeats_per_second()));
  }
  caller.member->heartbeats.take(now());
  Heartbeat reply{
      .is_live = is_live(*caller.job), .reason = caller.job->reason, .workers_left = {}};
  for (const auto& [worker, member] : caller.job->members) {
    if (member->has_left) reply.workers_left.push_back(worker);
  }
  if (!reply.is_live && !caller.member->was_told) {
    caller.member->was_told = true;
    changed_.notify_all();
  }
  return reply;
}

Status JobTable::leave(const Identity& identity) {
  const AnsweringLock lock(*this);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  Job& job = *caller.job;
  Member& member = *caller.member;
  if (member.has_left) return {};
  member.has_left = true;
  answer_start({job.id, member.worker}, {Code::kAborted, describe(member) + " has left the job"});
  changed_.notify_all();
  if (!is_live(job)) return {};
  spdlog::info("event=left job={} id={} worker={}", log_value(label(job)), job.id, member.worker);
  if (job.state == JobState::kRunning) {
    const bool all_left = std::all_of(job.members.begin(), job.members.end(),
                                      [](const auto& entry) { return entry.second->has_left; });
    if (all_left) finish(job, JobState::kEnded, "all workers left");
  } else if (member.cores_connected > 0) {
    finish(job, JobState::kFailed, describe(member) + " left before the job started");
  } else {
    job.members.erase(member.worker);
    if (job.members.empty() && !(job.by_admin && job.memory == Memory::kNone)) {
      finish(job, JobState::kEnded, "all workers left before the job started");
    }
  }
  return {};
}

Result<std::string> JobTable::tenant_of(const Identity& identity) const {
  const Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  return caller.job->tenant.name;
}

Result<std::string> JobTable::tenant_of(const Ticket& ticket) const {
  const Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, job_of(ticket));
  return job->tenant.name;
}

std::optional<std::string> JobTable::tenant_of(std::uint64_t job_id) const {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? std::nullopt : std::optional(found->second->tenant.name);
}

std::shared_ptr<Job> JobTable::live_job(const JobName& name) const {
  const auto found = live_by_name_.find(name);
  return found == live_by_name_.end() ? nullptr : jobs_.at(found->second);
}

}  // namespace phub::server
