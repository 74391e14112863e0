#include "server/jobs/start_barrier.h"

namespace phub::server {

std::uint64_t StartBarrier::start(const Identity& identity, std::chrono::milliseconds timeout,
                                  Reply reply) {
  const JobIndex::Lock lock(index_);
  const auto caller = index_.authenticate(identity);
  const auto at_once = [&](Status status) {
    index_.reply_later(std::move(reply), std::move(status));
    return std::uint64_t{0};
  };
  if (!caller) return at_once(caller.error());
  const Job& job = *caller->job;
  const Member& member = *caller->member;
  if (job.state == JobState::kRunning) return at_once({});
  if (!is_live(job)) return at_once(job_is_over(job));
  if (member.has_left) {
    return at_once({Code::kAborted, describe(member) + " has left the job"});
  }
  const Key key{job.id, member.worker};
  end(key, is_replaced("start", member));
  ++caller->member->calls;
  const TimePoint deadline = index_.now() + timeout;
  due_.emplace(deadline, key);
  waits_.emplace(key, Wait{++made_, deadline, timeout, caller->member, std::move(reply)});
  return made_;
}

std::size_t StartBarrier::waiting() const {
  const JobIndex::Lock lock(index_);
  return waits_.size();
}

const StartBarrier::Wait* StartBarrier::find(const Key& key) const {
  const auto found = waits_.find(key);
  return found == waits_.end() ? nullptr : &found->second;
}

std::optional<StartBarrier::Key> StartBarrier::first_due() const {
  if (due_.empty() || due_.begin()->first > index_.now()) return std::nullopt;
  return due_.begin()->second;
}

void StartBarrier::end(const Key& key, const Status& status) {
  const auto found = waits_.find(key);
  if (found != waits_.end()) end(found, status);
}

void StartBarrier::end_all_of(const Job& job, const Status& status) {
  auto wait = waits_.lower_bound({job.id, 0});
  while (wait != waits_.end() && wait->first.job_id == job.id) wait = end(wait, status);
}

StartBarrier::Waits::iterator StartBarrier::end(Waits::iterator found, const Status& status) {
  Wait& wait = found->second;
  due_.erase({wait.deadline, found->first});
  --wait.member->calls;
  wait.member->last_seen = index_.now();
  index_.reply_later(std::move(wait.reply), status);
  return waits_.erase(found);
}

}  // namespace phub::server
