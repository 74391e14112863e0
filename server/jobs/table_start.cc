// From joined to running: the agreement on the plan, the job's memory, and the start barrier.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/base/log_value.h"
#include "server/jobs/core_load.h"
#include "server/jobs/table.h"

namespace phub::server {
namespace {

constexpr std::size_t kServersMax = 1024;
constexpr std::uint32_t kCoresMax = 4096;
constexpr std::chrono::seconds kReleaseDeadline{30};

std::size_t cores_of(const Topology& topology) {
  const auto& counts = topology.cores_per_server;
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// What the topology says of this server's cores must be what its join said.
Status check_load(const Topology& topology, const std::vector<std::uint64_t>& ours) {
  const auto& counts = topology.cores_per_server;
  const auto& loads = topology.core_load_bytes;
  const std::size_t first =
      std::accumulate(counts.begin(), counts.begin() + topology.server_index, std::size_t{0});
  bool is_same = loads.empty() || loads.size() == cores_of(topology);
  for (std::size_t core = 0; core < ours.size() && is_same; ++core) {
    is_same = (loads.empty() ? 0 : loads[first + core]) == ours[core];
  }
  if (is_same) return {};
  return {
      Code::kFailedPrecondition,
      fmt::format("core_load_bytes: not what this server's join said, [{}], for {}; join again, "
                  "and list the servers in one order everywhere",
                  fmt::join(ours, ", "), describe(topology))};
}

Status validate(const Topology& topology, std::uint32_t cores) {
  const auto& counts = topology.cores_per_server;
  if (counts.empty() || counts.size() > kServersMax) {
    return {Code::kInvalidArgument, fmt::format("cores_per_server: {} servers, allowed are 1 to {}",
                                                counts.size(), std::size_t{kServersMax})};
  }
  for (const std::uint32_t count : counts) {
    if (count == 0 || count > kCoresMax) {
      return {Code::kInvalidArgument, fmt::format("cores_per_server: {}, allowed are 1 to {}",
                                                  count, std::uint32_t{kCoresMax})};
    }
  }
  if (topology.server_index >= counts.size()) {
    return {Code::kInvalidArgument,
            fmt::format("server_index: {} of {} servers", topology.server_index, counts.size())};
  }
  if (counts[topology.server_index] != cores) {
    return {Code::kFailedPrecondition,
            fmt::format("{} says that this server has {} cores, but it has {}; were the servers "
                        "listed in the same order as they were joined?",
                        describe(topology), counts[topology.server_index], cores)};
  }
  return {};
}

Status compare(const Job& job, const Topology& topology, std::uint64_t plan_hash) {
  if (job.topology.cores_per_server != topology.cores_per_server ||
      job.topology.server_index != topology.server_index ||
      job.topology.core_load_bytes != topology.core_load_bytes) {
    return {
        Code::kFailedPrecondition,
        fmt::format("the job's topology is {} but this worker's is {}; list the same servers in "
                    "the same order at every worker",
                    describe(job.topology), describe(topology))};
  }
  if (job.plan->hash != plan_hash) {
    return {Code::kFailedPrecondition,
            fmt::format("the plan's hash is {:016x} at the server but {:016x} at this worker, for "
                        "{}; are both the same version of PHub?",
                        job.plan->hash, plan_hash, describe(topology))};
  }
  return {};
}

// Marks a member as calling, so that the reaper leaves it alone. REQUIRES: the table's mutex at
// both ends of its life.
class CallInProgress {
 public:
  CallInProgress(Member& member, const std::function<TimePoint()>& clock)
      : member_(member), clock_(clock) {
    ++member_.calls;
  }
  ~CallInProgress() {
    --member_.calls;
    member_.last_seen = clock_();
  }
  CallInProgress(const CallInProgress&) = delete;
  CallInProgress& operator=(const CallInProgress&) = delete;

 private:
  Member& member_;
  const std::function<TimePoint()>& clock_;
};

Status is_replaced(std::string_view call, const Member& member) {
  return {Code::kAborted,
          fmt::format("a later {} of {} has taken this one's place", call, describe(member))};
}

}  // namespace

void JobTable::ready(const Identity& identity, const Topology& topology, std::uint64_t plan_hash,
                     Answer answer) {
  PHUB_CHECK(data_plane_ != nullptr, "attach comes before the first worker");
  const Status valid = validate(topology, data_plane_->cores());
  if (!valid.ok()) return answer(valid);
  std::deque<ReadyCall> calls;
  calls.push_back({identity, topology, plan_hash, std::move(answer)});
  // Whoever made the job's memory, or failed to, goes on with those that waited for it.
  for (; !calls.empty(); calls.pop_front()) {
    ReadyCall& call = calls.front();
    AnsweringLock lock(*this);
    if (call.member != nullptr) --call.member->calls;
    const Result<Caller> caller = authenticate(call.identity);
    if (caller && caller->job->memory == Memory::kCreating) {
      wait_for_memory(*caller, std::move(call));
      continue;
    }
    const Status outcome = caller ? make_ready(lock, *caller, call) : caller.error();
    answers_.emplace_back(std::move(call.answer), outcome);
    if (!caller) continue;
    if (auto waiting = ready_waits_.extract(caller->job->id)) {
      std::move(waiting.mapped().begin(), waiting.mapped().end(), std::back_inserter(calls));
    }
  }
}

// A member that calls again takes the place of its earlier call.
void JobTable::wait_for_memory(const Caller& caller, ReadyCall call) {
  call.member = caller.member;
  ++call.member->calls;
  std::vector<ReadyCall>& waiting = ready_waits_[caller.job->id];
  const auto earlier = std::find_if(waiting.begin(), waiting.end(), [&](const ReadyCall& other) {
    return other.member == call.member;
  });
  if (earlier == waiting.end()) {
    waiting.push_back(std::move(call));
    return;
  }
  --earlier->member->calls;
  std::swap(*earlier, call);
  answers_.emplace_back(std::move(call.answer), is_replaced("ready", *caller.member));
}

Status JobTable::make_ready(Lock& lock, const Caller& caller, const ReadyCall& call) {
  Job& job = *caller.job;
  const CallInProgress in_progress(*caller.member, options_.clock);
  if (!is_live(job)) return job_is_over(job);
  PHUB_RETURN_IF_ERROR(check_load(call.topology, job.core_load_bytes));
  if (job.memory == Memory::kNone) {
    PHUB_RETURN_IF_ERROR(make_on_data_plane(lock, job, call.topology, call.plan_hash));
  } else {
    PHUB_RETURN_IF_ERROR(compare(job, call.topology, call.plan_hash));
  }
  caller.member->is_ready = true;
  caller.member->secret_issued = now();
  caller.member->core_is_connected.resize(data_plane_->cores(), false);
  return {};
}

// REQUIRES: the mutex is not held.
Result<Plan> JobTable::plan_of(Job& job, const JobSpec& spec, const Topology& topology) {
  const PlanInput input = plan_input(spec, topology.cores_per_server, topology.core_load_bytes);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<const void> reserved, admit_plan_of(job, input));
  return make_plan(input);
}

// Ends in kHeld, or in kNone with an error, so that another worker may try.
Status JobTable::make_on_data_plane(Lock& lock, Job& job, const Topology& topology,
                                    std::uint64_t plan_hash) {
  job.memory = Memory::kCreating;
  job.topology = topology;
  const auto make = [&]() -> Status {
    PHUB_RETURN_IF_ERROR(release_before_creating(lock));
    const std::shared_ptr<const JobSpec> spec = job.spec;  // no longer changes: it has keys
    lock.unlock();
    Result<Plan> plan = plan_of(job, *spec, topology);
    lock.lock();
    if (!plan) return plan.error();
    job.plan = std::make_shared<const Plan>(std::move(*plan));
    PHUB_RETURN_IF_ERROR(compare(job, topology, plan_hash));
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t restored, admit_memory_of(job));
    job.placed_bytes = load_of(*job.plan, spec->wire_type, topology.server_index);
    const JobLayout shape = shape_of(job);
    const std::string snapshot = job.snapshot;
    lock.unlock();
    const Result<std::uint64_t> rounds_before = create_job(shape, snapshot);
    lock.lock();
    job.copy_bytes -= restored;
    if (!rounds_before) return rounds_before.error();
    job.rounds_before = *rounds_before;
    return {};
  };
  const Status made = make();
  if (!made.ok()) {
    job.plan = nullptr;
    job.memory_bytes = 0;
  }
  job.memory = made.ok() ? Memory::kHeld : Memory::kNone;
  if (made.ok() && !is_live(job)) job.memory = Memory::kToRelease;
  changed_.notify_all();
  if (!made.ok()) return made.with_context(fmt::format("job \"{}\"", label(job)));
  if (!is_live(job)) return job_is_over(job);
  spdlog::info("event=job_planned job={} id={} chunks={} plan_hash={:016x}", log_value(label(job)),
               job.id, job.plan->chunks.size(), job.plan->hash);
  return {};
}

// Returns the rounds that are behind it. REQUIRES: the mutex is not held: a snapshot is read.
Result<std::uint64_t> JobTable::create_job(JobLayout shape, const std::string& snapshot) {
  if (!snapshot.empty()) {
    if (options_.snapshots == nullptr) {
      return Status(Code::kFailedPrecondition,
                    "it starts from a snapshot, but this server has no state folder any more");
    }
    PHUB_ASSIGN_OR_RETURN(shape.initial,
                          options_.snapshots->load(snapshot, *shape.plan, shape.server_index));
    shape.rounds_before = shape.initial->round - 1;
  }
  PHUB_RETURN_IF_ERROR(data_plane_->create_job(shape));
  return shape.rounds_before;
}

std::uint64_t JobTable::rounds_before(std::uint64_t job_id) const {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? 0 : found->second->rounds_before;
}

// The memory of finished jobs is given back first: a new job may need it.
Status JobTable::release_before_creating(Lock& lock) {
  release_finished(lock);
  const bool is_released = changed_.wait_for(lock, kReleaseDeadline, [this] {
    return !has_memory(Memory::kToRelease) && !has_memory(Memory::kReleasing);
  });
  if (is_released) return {};
  return {Code::kDeadlineExceeded, "the memory of an ended job is not released yet; try again"};
}

Status JobTable::note_transport(const Identity& identity, const std::string& reason) {
  const Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  Member& member = *caller.member;
  if (member.transport_reason) return {};
  member.transport_reason = reason;
  spdlog::info("event=transport job={} id={} worker={} transport={} reason={}",
               log_value(label(*caller.job)), caller.job->id, member.worker,
               member.transport.empty() ? "none" : member.transport, log_value(reason));
  return {};
}

std::uint64_t JobTable::start(const Identity& identity, std::chrono::milliseconds timeout,
                              Answer answer) {
  const AnsweringLock lock(*this);
  const Result<Caller> caller = authenticate(identity);
  const auto at_once = [&](Status status) {
    answers_.emplace_back(std::move(answer), std::move(status));
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
  const StartWaits::Key key{job.id, member.worker};
  answer_start(key, is_replaced("start", member));
  ++caller->member->calls;
  starts_.add(key, {.number = ++starts_made_,
                    .deadline = now() + timeout,
                    .timeout = timeout,
                    .member = caller->member,
                    .answer = std::move(answer)});
  return starts_made_;
}

void JobTable::stop_waiting(const Identity& identity, std::uint64_t number) {
  const AnsweringLock lock(*this);
  const StartWait* const wait = starts_.find({identity.job_id, identity.worker});
  if (wait == nullptr || wait->number != number) return;
  const std::shared_ptr<Job> job = jobs_.at(identity.job_id);
  lose(*job, *wait->member, "it stopped waiting for the start");
}

void JobTable::end_late_starts() {
  const AnsweringLock lock(*this);
  const TimePoint time = now();
  while (const auto key = starts_.first_due(time)) {
    const StartWait* const late = starts_.find(*key);
    const std::shared_ptr<Job> job = jobs_.at(key->job_id);
    const std::string reason =
        fmt::format("it did not start within {} ms: {}", late->timeout.count(),
                    describe_missing(*job, data_plane_->cores()));
    answer_start(*key,
                 {Code::kDeadlineExceeded, fmt::format("job \"{}\": {}", label(*job), reason)});
    finish(*job, JobState::kFailed, reason);
  }
}

std::size_t JobTable::waiting_starts() const {
  const Lock lock(mutex_);
  return starts_.size();
}

void JobTable::answer_start(const StartWaits::Key& key, const Status& status) {
  std::optional<StartWait> wait = starts_.take(key);
  if (!wait) return;
  --wait->member->calls;
  wait->member->last_seen = now();
  answers_.emplace_back(std::move(wait->answer), status);
}

void JobTable::answer_starts(const Job& job, const Status& status) {
  for (const StartWaits::Key& key : starts_.of_job(job.id)) answer_start(key, status);
}

void JobTable::on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                            std::string_view transport) {
  const AnsweringLock lock(*this);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !is_live(*found->second)) return;
  Job& job = *found->second;
  const auto entry = job.members.find(worker);
  if (entry == job.members.end()) return;
  Member& member = *entry->second;
  if (core >= member.core_is_connected.size() || member.core_is_connected[core]) return;
  member.core_is_connected[core] = true;
  ++member.cores_connected;
  const bool is_uniform = member.transport.empty() || member.transport == transport;
  member.transport = is_uniform ? std::string(transport) : "mixed";
  if (job.state == JobState::kWaiting && is_complete(job, data_plane_->cores())) {
    job.state = JobState::kRunning;
    spdlog::info("event=job_running job={} id={} workers={}", log_value(label(job)), job.id,
                 job.spec->workers);
    answer_starts(job, {});
    changed_.notify_all();
  }
}

}  // namespace phub::server
