// How members leave, and what the data plane and the links to other racks tell of them.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/base/log_value.h"
#include "server/jobs/members.h"

namespace phub::server {

namespace {

// Null: the job has ended, or has no such member.
std::shared_ptr<Member> find(const std::shared_ptr<Job>& job, std::uint32_t worker) {
  if (job == nullptr || !is_live(*job)) return nullptr;
  const auto found = job->members.find(worker);
  return found == job->members.end() ? nullptr : found->second;
}

}  // namespace

Status JobMembers::leave(const Identity& identity, const std::string& reason) {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  Job& job = *caller.job;
  Member& member = *caller.member;
  if (member.has_left) return {};
  member.has_left = true;
  starts_.end({job.id, member.worker}, {Code::kAborted, describe(member) + " has left the job"});
  index_.changed.notify_all();
  if (!is_live(job)) return {};
  spdlog::info("event=left job={} id={} member={}", log_value(label(job)), job.id,
               log_value(describe(member)));
  if (!member.rack.empty() && !reason.empty()) {
    member.has_left = false;
    lose_rack(job, member, "rack " + member.rack + ": " + reason, /*is_known=*/true);
  } else if (job.state == JobState::kRunning && !reason.empty() &&
             !job.spec->rounds.waits_for_all()) {
    lose(job, member, reason);
  } else if (job.state == JobState::kRunning) {
    note_left(job, member);
    life_.fail_added_to(job.id, "keys cannot be added to a job that " + describe(member) + " left",
                        /*waiting_only=*/true);
  } else if (member.path.cores_connected > 0) {
    life_.finish(job, JobState::kFailed, describe(member) + " left before the job started");
  } else {
    job.members.erase(member.worker);
    if (job.members.empty() && !(job.by_admin && job.place.memory == Memory::kNone)) {
      life_.finish(job, JobState::kEnded, "all workers left before the job started");
    }
  }
  return {};
}

void JobMembers::withdraw(const Identity& identity) {
  {
    const JobIndex::Lock lock(index_);
    const auto caller = index_.authenticate(identity);
    if (!caller || !is_unheard(*caller->member)) return;
    spdlog::info("event=join_withdrawn job={} id={} member={}", log_value(label(*caller->job)),
                 caller->job->id, log_value(describe(*caller->member)));
  }
  static_cast<void>(leave(identity));
}

// The member has left a job that runs. When the last worker of this rack has left, the rack leaves
// the others. The job ends here when they have left too.
void JobMembers::note_left(Job& job, const Member& member) {
  end_if_all_left(job);
  if (!is_live(job) || index_.options.links == nullptr) return;
  if (member.rack.empty() && is_finishing(job)) index_.options.links->close(job.id, {});
}

// A rack that is lost while this one's workers leave is as one that has left.
void JobMembers::end_if_all_left(Job& job) {
  const bool have_left = std::all_of(job.members.begin(), job.members.end(), [](const auto& entry) {
    return entry.second->has_left || entry.second->was_lost;
  });
  if (have_left) life_.finish(job, JobState::kEnded, "all workers left");
}

std::optional<IssuedSecret> JobMembers::secret_of(std::uint64_t job_id, std::uint32_t epoch,
                                                  std::uint32_t worker) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  const std::shared_ptr<Member> member = find(job, worker);
  if (member == nullptr || job->epoch != epoch) return std::nullopt;
  if (!member->is_ready || member->has_left) return std::nullopt;
  const auto age = index_.now() - member->secret_issued;
  return IssuedSecret{.secret = member->secret,
                      .has_expired = age > index_.options.join_secret_lifetime};
}

void JobMembers::on_left_behind(std::uint64_t job_id, std::uint32_t worker,
                                std::string_view reason) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  const std::shared_ptr<Member> member = find(job, worker);
  if (member == nullptr || member->has_left || member->was_lost) return;
  lose(*job, *member, reason);
}

// A rack that is left alone goes on. With more racks, chunks whose root was the lost one could not
// be exchanged. `is_known`: the reason is that rack's own, or that it is silent. Else it is asked.
void JobMembers::lose_rack(Job& job, Member& member, const std::string& reason, bool is_known) {
  if (member.has_left || member.was_lost) return;
  member.was_lost = true;
  if (is_finishing(job)) {
    member.loss = reason;
    return end_if_all_left(job);
  }
  const bool is_alone = std::ranges::all_of(job.members, [](const auto& entry) {
    const Member& each = *entry.second;
    return each.rack.empty() || each.was_lost || each.has_left;
  });
  if (job.state == JobState::kRunning && job.spec->rack_local.goes_on() && is_alone) {
    member.loss = is_known ? reason : fmt::format("{}: {}", describe(member), reason);
    spdlog::warn("event=rack_left_behind job={} id={} rack={} reason={}", log_value(label(job)),
                 job.id, log_value(member.rack), log_value(member.loss));
    index_.changed.notify_all();
    return;
  }
  if (is_known || index_.options.links == nullptr) {
    return life_.finish(job, JobState::kFailed, reason);
  }
  index_.options.links->diagnose(job.id, member.rack, reason);
}

void JobMembers::lose(Job& job, Member& member, std::string_view reason) {
  const RoundPolicy& rounds = job.spec->rounds;
  if (!member.rack.empty() && job.spec->rack_local.goes_on()) {
    return lose_rack(job, member, std::string(reason), /*is_known=*/false);
  }
  const auto count = [&](auto counts) {
    return static_cast<std::uint32_t>(std::count_if(
        job.members.begin(), job.members.end(),
        [&](const auto& entry) { return entry.second->rack.empty() && counts(*entry.second); }));
  };
  member.was_lost = true;
  const std::uint32_t kept = job.rack.workers - count([](const Member& m) { return m.was_lost; });
  const std::uint32_t there = count([](const Member& m) { return !m.was_lost && !m.has_left; });
  const bool goes_on = job.state == JobState::kRunning && !rounds.waits_for_all() && there > 0;
  if (goes_on && member.index == 0) {
    return life_.lose(job, member,
                      fmt::format("{}; it evaluates and saves the model, so a job does not go on "
                                  "without it, whatever its quorum",
                                  reason));
  }
  if (!goes_on || kept < rounds.quorum) return life_.lose(job, member, reason);
  member.loss = reason;
  spdlog::warn("event=left_behind job={} id={} member={} reason={} workers_there={} quorum={}",
               log_value(label(job)), job.id, log_value(describe(member)), log_value(reason), there,
               rounds.quorum);
  index_.changed.notify_all();
  note_left(job, member);
}

void JobMembers::on_lost(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  const std::shared_ptr<Member> member = find(job, worker);
  if (member == nullptr || member->has_left) return;
  const std::string why = member->loss.empty() ? std::string(reason) : member->loss;
  member->was_lost = true;
  if (is_finishing(*job)) {  // its links, which could ask, are closed
    member->loss = why;
    return end_if_all_left(*job);
  }
  if (!member->rack.empty() && index_.options.links != nullptr) {
    return index_.options.links->diagnose(job_id, member->rack, std::string(reason));
  }
  life_.lose(*job, *member, why);
}

void JobMembers::on_delayed(std::uint64_t job_id, const std::string& reason) {
  const JobIndex::Lock lock(index_);
  if (const std::shared_ptr<Job> job = index_.find(job_id)) job->rack.delay = reason;
}

void JobMembers::on_linked(std::uint64_t job_id) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr || !is_live(*job)) return;
  job->rack.is_linked = true;
  run_if_complete(*job);
}

void JobMembers::on_unlinked(std::uint64_t job_id, const std::string& reason) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job != nullptr && is_live(*job)) life_.finish(*job, JobState::kFailed, reason);
}

void JobMembers::on_rack_lost(std::uint64_t job_id, const std::string& rack,
                              const std::string& reason) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr || !is_live(*job)) return;
  for (const auto& [seat, member] : job->members) {
    if (member->rack == rack) return lose_rack(*job, *member, reason, /*is_known=*/true);
  }
  life_.finish(*job, JobState::kFailed, reason);  // it has not joined here
}

void JobMembers::on_end_planned(std::uint64_t job_id, const std::string& reason,
                                std::uint64_t last_step) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  if (job == nullptr) return;
  JobLife::announce_end(*job, reason);
  if (!job->spec->rack_local.goes_on()) JobLife::set_last_step(*job, last_step);
}

void JobMembers::on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                              std::string_view transport) {
  const JobIndex::Lock lock(index_);
  const std::shared_ptr<Job> job = index_.find(job_id);
  const std::shared_ptr<Member> member = find(job, worker);
  if (member == nullptr) return;
  DataPath& path = member->path;
  if (core >= path.core_is_connected.size() || path.core_is_connected[core]) return;
  path.core_is_connected[core] = true;
  ++path.cores_connected;
  const bool is_uniform = path.transport.empty() || path.transport == transport;
  path.transport = is_uniform ? std::string(transport) : "mixed";
  run_if_complete(*job);
}

void JobMembers::run_if_complete(Job& job) {
  if (job.state != JobState::kWaiting) return;
  if (!job.rack.is_complete && !job.spec->racks.empty() && is_rack_complete(job, index_.cores())) {
    job.rack.is_complete = true;
    index_.options.links->complete(job.id);
  }
  if (!is_complete(job, index_.cores())) return;
  job.state = JobState::kRunning;
  spdlog::info("event=job_running job={} id={} workers={}", log_value(label(job)), job.id,
               job.spec->workers);
  starts_.end_all_of(job, {});
  index_.changed.notify_all();
}

}  // namespace phub::server
