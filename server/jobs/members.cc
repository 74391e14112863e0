#include "server/jobs/members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"
#include "common/job/check.h"
#include "common/rendezvous/end_reasons.h"
#include "server/jobs/core_load.h"

namespace phub::server {
namespace {

constexpr std::chrono::seconds kFinishDeadline{5};  // which others' racks have to leave

Result<Secret> make_secret() {
  Secret secret{};
  if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1) {
    return Status(Code::kInternal, "the system gives no random bytes for a worker's secret");
  }
  return secret;
}

// The lowest seat that no member has. REQUIRES: there is one.
std::uint32_t lowest_free(const Job& job) {
  std::uint32_t worker = 0;
  while (job.members.count(worker) != 0) ++worker;
  return worker;
}

// By their index in the job: a rack's are all of its.
void add_workers(const Job& job, const Member& member, std::vector<std::uint32_t>& workers) {
  if (member.rack.empty()) return workers.push_back(member.index);
  std::uint32_t first = 0;
  for (const RackSpec& rack : job.spec->racks) {
    for (std::uint32_t i = 0; rack.name == member.rack && i < rack.workers; ++i) {
      workers.push_back(first + i);
    }
    first += rack.workers;
  }
}

// Whether a rack's server joins again because the reply to its join was lost.
bool is_again(const Member& member, const JoinArguments& caller) {
  return is_unheard(member) && member.host == caller.host &&
         member.process_id == caller.process_id && member.attempt <= caller.attempt;
}

Status given_up(const JoinArguments& arguments) {
  if (!arguments.is_given_up || !arguments.is_given_up()) return {};
  return {Code::kAborted, "the join was given up before it was executed"};
}

Status full(const Job& job) {
  std::vector<std::uint32_t> lost;
  for (const auto& [worker, member] : job.members) {
    if (member->was_lost) add_workers(job, *member, lost);
  }
  if (!lost.empty()) {
    return {
        Code::kAlreadyExists,
        fmt::format("job \"{}\" goes on without worker {}, and who was lost cannot come back; "
                    "wait for it to end, or end it and start all from a checkpoint or a snapshot",
                    label(job), fmt::join(lost, ", "))};
  }
  return {Code::kAlreadyExists, fmt::format("job \"{}\" has all of its {} workers; wait for it to "
                                            "end, or choose another name or more workers",
                                            label(job), job.spec->workers)};
}

// The index among the members that the caller is to have. Errors: there is none.
Result<std::uint32_t> worker_seat(const Job& job, std::int32_t index) {
  const JobRack& rack = job.rack;
  const auto count = std::count_if(job.members.begin(), job.members.end(),
                                   [](const auto& entry) { return entry.second->rack.empty(); });
  const std::uint32_t last = rack.first_worker + rack.workers - 1;
  if (index < -1 || index > static_cast<std::int64_t>(last) ||
      (index >= 0 && static_cast<std::uint32_t>(index) < rack.first_worker)) {
    const std::string which =
        job.spec->racks.empty() ? "" : " in rack " + job.spec->racks[rack.own].name;
    return Status(
        Code::kInvalidArgument,
        fmt::format("worker_index: {}, allowed are {} to {}{}, or -1 to let the server choose",
                    index, rack.first_worker, last, which));
  }
  if (index >= 0) {
    const std::uint32_t seat = static_cast<std::uint32_t>(index) - rack.first_worker;
    const auto taken = job.members.find(seat);
    if (taken == job.members.end()) return seat;
    return Status(
        Code::kAlreadyExists,
        fmt::format(
            "worker_index: {} of job \"{}\" is taken: {}; choose another, or -1 at every worker",
            index, label(job), describe(*taken->second)));
  }
  if (count >= static_cast<std::ptrdiff_t>(rack.workers)) return full(job);
  return lowest_free(job);
}

// The same, of a rack.
Result<std::uint32_t> rack_seat(const Job& job, const JoinArguments& arguments) {
  const std::string& rack = arguments.rack;
  const std::vector<RackSpec>& racks = job.spec->racks;
  for (std::uint32_t i = 0; i < racks.size(); ++i) {
    if (racks[i].name != rack || i == job.rack.own) continue;
    const std::uint32_t seat = job.rack.workers + i - (i > job.rack.own ? 1 : 0);
    const auto taken = job.members.find(seat);
    if (taken == job.members.end() || is_again(*taken->second, arguments)) return seat;
    return Status(Code::kAlreadyExists, fmt::format("rack: {} has joined job \"{}\" already",
                                                    describe(*taken->second), label(job)));
  }
  return Status(Code::kInvalidArgument,
                fmt::format("rack: \"{}\" is no other rack of job \"{}\"", rack, label(job)));
}

// Returns what a member may send. A client sends five in a deadline, and 50 a second while it looks
// for why a connection has closed.
double heartbeats_per_second(std::chrono::milliseconds deadline) {
  constexpr double kLeast = 100;
  constexpr double kInDeadline = 50;
  return kLeast + kInDeadline / std::chrono::duration<double>(deadline).count();
}

// Whether a worker that waits for worker 0 may join now. REQUIRES: the mutex.
Status check_first(const JobIndex& index, const JoinArguments& arguments) {
  if (!arguments.after_first) return {};
  const JobName name{arguments.tenant, arguments.spec->name};
  const std::shared_ptr<Job> job = index.find_live(name);
  const auto not_yet = [&](std::string_view why) {
    return Status(Code::kUnavailable, fmt::format("job \"{}\" {}", to_string(name), why));
  };
  if (job != nullptr && job->state != JobState::kWaiting) {
    return not_yet(client::kStillRuns);
  }
  if (arguments.worker_index == 0) return {};
  if (job == nullptr) return not_yet("is not there yet: worker 0 makes or restores it");
  const auto is_first = [](const auto& entry) { return entry.second->index == 0; };
  if (std::ranges::any_of(job->members, is_first)) return {};
  return not_yet("waits for worker 0, which is to join before the others");
}

}  // namespace

Result<Identity> JobMembers::join(const JoinArguments& arguments) {
  const Status valid = validate(*arguments.spec);
  if (!valid.ok()) {
    refuse_added_keys(arguments, valid);
    return valid;
  }
  if (arguments.spec->keys.empty()) {
    return Status(Code::kInvalidArgument, "keys: a worker must join with at least one key");
  }
  PHUB_ASSIGN_OR_RETURN(const Secret secret, make_secret());
  JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, job_to_join(lock, arguments));
  PHUB_RETURN_IF_ERROR(check_run(*job, arguments.run));
  Result<Identity> admitted = admit(*job, arguments, secret);
  if (admitted && !arguments.run.empty()) job->run = arguments.run;
  return admitted;
}

Result<std::shared_ptr<Job>> JobMembers::base_of(const JoinArguments& arguments) const {
  if (!arguments.base) return std::shared_ptr<Job>();
  const auto caller = index_.authenticate(*arguments.base);
  if (!caller) return caller.error().with_context("base");
  std::shared_ptr<Job> base = caller->job;
  if (base->tenant.name != arguments.tenant) {
    return Status(Code::kPermissionDenied, fmt::format("base: job id {} is not tenant \"{}\"'s",
                                                       base->id, arguments.tenant));
  }
  if (!is_live(*base)) return job_is_over(*base);
  if (!base->refused_keys.empty()) return Status(Code::kInvalidArgument, base->refused_keys);
  std::vector<std::string> left;
  for (const auto& [seat, member] : base->members) {
    if (member->has_left) left.push_back(describe(*member));
  }
  if (!left.empty()) {
    return Status(Code::kAborted,
                  fmt::format("keys cannot be added to a job that {} left", fmt::join(left, ", ")));
  }
  return base;
}

void JobMembers::refuse_added_keys(const JoinArguments& arguments, const Status& refusal) {
  if (!arguments.base) return;
  const JobIndex::Lock lock(index_);
  const auto base = base_of(arguments);
  if (!base) return;
  (*base)->refused_keys = fmt::format("a worker (host {}, pid {}) was refused: {}", arguments.host,
                                      arguments.process_id, refusal.message());
  life_.fail_added_to((*base)->id, (*base)->refused_keys, /*waiting_only=*/true);
}

// Specs may have a million keys, so they are compared without the mutex.
Result<std::shared_ptr<Job>> JobMembers::job_to_join(JobIndex::Lock& lock,
                                                     const JoinArguments& arguments) {
  const std::shared_ptr<const JobSpec>& spec = arguments.spec;
  while (true) {
    PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<Job> base, base_of(arguments));
    std::shared_ptr<Job> job;
    if (arguments.ticket) {
      PHUB_ASSIGN_OR_RETURN(job, index_.find(*arguments.ticket));
    } else {
      const JobName name{arguments.tenant, spec->name};
      const auto is_over = [&] {
        job = index_.find_live(name);
        return job == nullptr || !is_finishing(*job);
      };
      index_.changed.wait_for(lock, kFinishDeadline, is_over);
      PHUB_RETURN_IF_ERROR(check_first(index_, arguments));
      if (job == nullptr) {
        PHUB_RETURN_IF_ERROR(given_up(arguments));
        PHUB_ASSIGN_OR_RETURN(job, life_.add(arguments.tenant, spec, /*by_admin=*/false));
        if (base != nullptr) job->base_job_id = base->id;
        return job;
      }
    }
    if (job->base_job_id != (base == nullptr ? 0 : base->id)) {
      return Status(
          Code::kAlreadyExists,
          fmt::format("job \"{}\" lives already, and {}; wait for it to end, or choose "
                      "another name",
                      label(*job),
                      job->base_job_id == 0 ? "its keys are nobody's additions"
                                            : "has the keys that others added to theirs"));
    }
    if (job->unjoined_until && !arguments.after_first) {
      return Status(Code::kAlreadyExists,
                    fmt::format("job \"{}\" was restored by its workers after a loss, and takes "
                                "them alone (train.recover_s); choose another name",
                                label(*job)));
    }
    const std::shared_ptr<const JobSpec> existing = job->spec;
    lock.unlock();
    const Status agreement = compare(*existing, *spec);
    if (!agreement.ok()) {
      refuse_added_keys(arguments, agreement.with_context(fmt::format("job \"{}\"", spec->name)));
    }
    lock.lock();
    if (!agreement.ok()) {
      end_if_racks_differ(*job, arguments, agreement);
      return agreement.with_context(fmt::format("job \"{}\"", label(*job)));
    }
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

// The first of a rack speaks for it: one that is refused would be waited for in all others.
void JobMembers::end_if_racks_differ(Job& job, const JoinArguments& arguments,
                                     const Status& difference) {
  const bool spans_racks = !job.spec->racks.empty() && !arguments.spec->racks.empty();
  if (!spans_racks || job.by_admin || job.state != JobState::kWaiting) return;
  const auto is_of_its_rack = [&](const auto& entry) {
    return entry.second->rack == arguments.rack;
  };
  if (std::any_of(job.members.begin(), job.members.end(), is_of_its_rack)) return;
  const std::string who = arguments.rack.empty() ? "a worker" : "rack " + arguments.rack;
  life_.finish(job, JobState::kFailed,
               fmt::format("{} (host {}, pid {}) was refused: {}", who, arguments.host,
                           arguments.process_id, difference.message()));
}

Result<Identity> JobMembers::admit(Job& job, const JoinArguments& arguments, const Secret& secret) {
  PHUB_RETURN_IF_ERROR(given_up(arguments));
  if (job.state != JobState::kWaiting) return full(job);
  const bool is_worker = arguments.rack.empty();
  PHUB_ASSIGN_OR_RETURN(const std::uint32_t seat, is_worker
                                                      ? worker_seat(job, arguments.worker_index)
                                                      : rack_seat(job, arguments));
  if (job.members.empty()) fix_core_load(index_, job);
  auto member = std::make_shared<Member>(TokenBucket(
      heartbeats_per_second(index_.options.heartbeat_deadline), kHeartbeatsAtOnce, index_.now()));
  member->worker = seat;
  member->index = job.rack.first_worker + seat;
  member->rack = arguments.rack;
  member->host = arguments.host;
  member->process_id = arguments.process_id;
  member->attempt = arguments.attempt;
  member->secret = secret;
  member->secret_issued = index_.now();
  member->last_seen = member->secret_issued;
  job.members[seat] = member;
  spdlog::info("event=joined job={} id={} worker={} host={} pid={}", log_value(label(job)), job.id,
               is_worker ? std::to_string(member->index) : "rack:" + member->rack,
               log_value(member->host), member->process_id);
  index_.changed.notify_all();
  return Identity{.job_id = job.id, .epoch = job.epoch, .worker = member->worker, .secret = secret};
}

Result<HeartbeatReply> JobMembers::heartbeat(const Identity& identity, bool rack_is_complete,
                                             const EndWords& end,
                                             const std::optional<StepWaits>& steps) {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  caller.member->last_seen = index_.now();  // also of one that asks too often: it lives
  // That its job is over every member is told, however often it has asked.
  const bool is_news = !is_live(*caller.job) && !caller.member->was_told;
  const auto wait = caller.member->heartbeats.wait(index_.now());
  if (wait > std::chrono::steady_clock::duration::zero() && !is_news) {
    return Status(
        Code::kResourceExhausted,
        fmt::format("{} of job \"{}\" has sent {} heartbeats in a burst, and may send {:.0f} a "
                    "second; send one in each heartbeat_interval_ms that the join gave",
                    describe(*caller.member), label(*caller.job), kHeartbeatsAtOnce,
                    heartbeats_per_second(index_.options.heartbeat_deadline)));
  }
  caller.member->heartbeats.take(index_.now());
  if (rack_is_complete && !caller.member->rack.empty() && !caller.member->is_complete) {
    caller.member->is_complete = true;
    run_if_complete(*caller.job);
  }
  life_.take_end_words(*caller.job, *caller.member, end);
  if (steps && caller.member->rack.empty()) caller.member->step_waits = steps;
  HeartbeatReply reply{.is_live = is_live(*caller.job),
                       .reason = caller.job->reason,
                       .workers_left = {},
                       .ending = caller.job->end.reason,
                       .last_step = caller.job->end.last_step,
                       .all_know = JobLife::all_know_last_step(*caller.job, *caller.member)};
  if (reply.is_live && !caller.member->loss.empty()) {
    reply = {
        .is_live = false,
        .reason = fmt::format("this {} was lost ({}), and its job goes on without it",
                              caller.member->rack.empty() ? "worker" : "rack", caller.member->loss),
        .workers_left = {}};
  }
  for (const auto& [worker, member] : caller.job->members) {
    // Where there is a quorum, others do not wait for who has left.
    if (member->has_left && caller.job->spec->rounds.waits_for_all())
      add_workers(*caller.job, *member, reply.workers_left);
    if (!member->loss.empty()) add_workers(*caller.job, *member, reply.workers_lost);
  }
  if (!reply.is_live && !caller.member->was_told) {
    caller.member->was_told = true;
    index_.changed.notify_all();
  }
  return reply;
}

Status JobMembers::note_transport(const Identity& identity, const std::string& reason) {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  Member& member = *caller.member;
  if (member.path.reason) return {};
  member.path.reason = reason;
  spdlog::info("event=transport job={} id={} worker={} transport={} reason={}",
               log_value(label(*caller.job)), caller.job->id, member.index,
               member.path.transport.empty() ? "none" : member.path.transport, log_value(reason));
  return {};
}

}  // namespace phub::server
