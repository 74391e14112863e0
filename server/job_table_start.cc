// From joined to running: the agreement on the plan, the job's memory, and the start barrier.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/core_load.h"
#include "server/job_table.h"

namespace phub::server {
namespace {

constexpr std::size_t kServersMax = 1024;
constexpr std::uint32_t kCoresMax = 4096;
constexpr std::chrono::milliseconds kCancellationCheck{100};
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

Status over(const Job& job) {
  return {Code::kAborted, fmt::format("job \"{}\": {}", label(job), job.reason)};
}

}  // namespace

Status JobTable::ready(const Identity& identity, const Topology& topology,
                       std::uint64_t plan_hash) {
  PHUB_CHECK(data_plane_ != nullptr, "attach comes before the first worker");
  PHUB_RETURN_IF_ERROR(validate(topology, data_plane_->cores()));
  Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  Job& job = *caller.job;
  const CallInProgress call(*caller.member, options_.clock);
  changed_.wait(lock, [&job] { return job.memory != Memory::kCreating; });
  if (!is_live(job)) return over(job);
  PHUB_RETURN_IF_ERROR(check_load(topology, job.core_load_bytes));
  if (job.memory == Memory::kNone) {
    PHUB_RETURN_IF_ERROR(make_on_data_plane(lock, job, topology, plan_hash));
  } else {
    PHUB_RETURN_IF_ERROR(compare(job, topology, plan_hash));
  }
  caller.member->is_ready = true;
  caller.member->secret_issued = now();
  caller.member->core_is_connected.resize(data_plane_->cores(), false);
  return {};
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
    Result<Plan> plan =
        make_plan(plan_input(*spec, topology.cores_per_server, topology.core_load_bytes));
    lock.lock();
    if (!plan) return plan.error();
    job.plan = std::make_shared<const Plan>(std::move(*plan));
    PHUB_RETURN_IF_ERROR(compare(job, topology, plan_hash));
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t restored, admit_memory_of(job));
    job.placed_bytes = load_of(*job.plan, spec->wire_type, topology.server_index);
    const JobShape shape = shape_of(job);
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
  if (!is_live(job)) return over(job);
  spdlog::info("event=job_planned job=\"{}\" id={} chunks={} plan_hash={:016x}", label(job), job.id,
               job.plan->chunks.size(), job.plan->hash);
  return {};
}

// Returns the rounds that are behind it. REQUIRES: the mutex is not held: a snapshot is read.
Result<std::uint64_t> JobTable::create_job(JobShape shape, const std::string& snapshot) {
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
  spdlog::info("event=transport job=\"{}\" id={} worker={} transport={} reason=\"{}\"",
               label(*caller.job), caller.job->id, member.worker,
               member.transport.empty() ? "none" : member.transport, reason);
  return {};
}

Status JobTable::start(const Identity& identity, std::chrono::milliseconds timeout,
                       const std::function<bool()>& is_cancelled) {
  Lock lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const Caller caller, authenticate(identity));
  Job& job = *caller.job;
  const CallInProgress call(*caller.member, options_.clock);
  const TimePoint deadline = now() + timeout;
  while (job.state == JobState::kWaiting) {
    if (caller.member->has_left) {
      return {Code::kAborted, describe(*caller.member) + " has left the job"};
    }
    if (now() >= deadline) {
      const std::string reason = fmt::format("it did not start within {} ms: {}", timeout.count(),
                                             describe_missing(job, data_plane_->cores()));
      finish(job, JobState::kFailed, reason);
      return {Code::kDeadlineExceeded, over(job).message()};
    }
    lock.unlock();
    const bool was_cancelled = is_cancelled();
    lock.lock();
    if (was_cancelled) {
      if (is_live(job)) lose(job, *caller.member, "it stopped waiting for the start");
      break;
    }
    if (job.state == JobState::kWaiting) changed_.wait_for(lock, kCancellationCheck);
  }
  return job.state == JobState::kRunning ? Status() : over(job);
}

void JobTable::on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                            std::string_view transport) {
  const Lock lock(mutex_);
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
    spdlog::info("event=job_running job=\"{}\" id={} workers={}", label(job), job.id,
                 job.spec->workers);
    changed_.notify_all();
  }
}

}  // namespace phub::server
