#include "server/jobs/placement.h"

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
#include "server/job/rack_links.h"
#include "server/jobs/core_load.h"

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
  return {Code::kFailedPrecondition,
          fmt::format("core_load_bytes: not what this server's join said, [{}], for {}; join "
                      "again, and list the servers in one order everywhere",
                      fmt::join(ours, ", "), describe(topology))};
}

Status validate(const Topology& topology) {
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
  return {};
}

// A worker says how many cores this server has, a rack how many the server of its place has.
Status check_cores(const Topology& topology, std::uint32_t cores) {
  const std::uint32_t said = topology.cores_per_server[topology.server_index];
  if (said == cores) return {};
  return {Code::kFailedPrecondition,
          fmt::format("{} says that this server has {} cores, but it has {}; were the servers "
                      "listed in the same order as they were joined?",
                      describe(topology), said, cores)};
}

Status compare(const Job& job, const Topology& topology, std::uint64_t plan_hash) {
  if (job.place.topology.cores_per_server != topology.cores_per_server ||
      job.place.topology.server_index != topology.server_index ||
      job.place.topology.core_load_bytes != topology.core_load_bytes) {
    return {Code::kFailedPrecondition,
            fmt::format("the job's topology is {} but this worker's is {}; list the same servers "
                        "in the same order at every worker",
                        describe(job.place.topology), describe(topology))};
  }
  if (job.place.plan->hash != plan_hash) {
    return {Code::kFailedPrecondition,
            fmt::format("the plan's hash is {:016x} at the server but {:016x} at this worker, for "
                        "{}; are both the same version of PHub?",
                        job.place.plan->hash, plan_hash, describe(topology))};
  }
  return {};
}

// Racks differ in their servers' cores at most.
Status compare_racks(const Job& job, const Topology& topology, std::uint64_t racks_hash) {
  const Topology& own = job.place.topology;
  if (own.cores_per_server.size() != topology.cores_per_server.size() ||
      own.server_index != topology.server_index) {
    return {Code::kFailedPrecondition,
            fmt::format("the job's topology is {} here but {} in that rack; racks have as many "
                        "servers each, in one order: a server talks to those of its place",
                        describe(own), describe(topology))};
  }
  if (job.place.plan->racks_hash == racks_hash) return {};
  return {Code::kFailedPrecondition,
          fmt::format("the hash of what racks have alike is {:016x} here but {:016x} in that rack; "
                      "are both the same version of PHub?",
                      job.place.plan->racks_hash, racks_hash)};
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

}  // namespace

void Placement::ready(const Identity& identity, const Topology& topology, std::uint64_t plan_hash,
                      Reply reply) {
  PHUB_CHECK(index_.data_plane() != nullptr, "attach comes before the first worker");
  const Status valid = validate(topology);
  if (!valid.ok()) return reply(valid);
  std::deque<ReadyCall> calls;
  calls.push_back({identity, topology, plan_hash, std::move(reply)});
  // Whoever made the job's memory, or failed to, goes on with those that waited for it.
  for (; !calls.empty(); calls.pop_front()) {
    ReadyCall& call = calls.front();
    JobIndex::Lock lock(index_);
    if (call.member != nullptr) --call.member->calls;
    const auto caller = index_.authenticate(call.identity);
    if (caller && caller->job->place.memory == Memory::kCreating) {
      wait_for_memory(*caller, std::move(call));
      continue;
    }
    const Status outcome = caller ? make_ready(lock, *caller, call) : caller.error();
    index_.reply_later(std::move(call.reply), outcome);
    if (!caller) continue;
    if (auto waiting = waiting_.extract(caller->job->id)) {
      std::move(waiting.mapped().begin(), waiting.mapped().end(), std::back_inserter(calls));
    }
  }
}

// A member that calls again takes the place of its earlier call.
void Placement::wait_for_memory(const JobIndex::Caller& caller, ReadyCall call) {
  call.member = caller.member;
  ++call.member->calls;
  std::vector<ReadyCall>& waiting = waiting_[caller.job->id];
  const auto earlier = std::find_if(waiting.begin(), waiting.end(), [&](const ReadyCall& other) {
    return other.member == call.member;
  });
  if (earlier == waiting.end()) {
    waiting.push_back(std::move(call));
    return;
  }
  --earlier->member->calls;
  std::swap(*earlier, call);
  index_.reply_later(std::move(call.reply), is_replaced("ready", *caller.member));
}

Status Placement::make_ready(JobIndex::Lock& lock, const JobIndex::Caller& caller,
                             const ReadyCall& call) {
  Job& job = *caller.job;
  const CallInProgress in_progress(*caller.member, index_.options.clock);
  if (!is_live(job)) return job_is_over(job);
  const bool is_rack = !caller.member->rack.empty();
  if (!is_rack) {
    PHUB_RETURN_IF_ERROR(check_cores(call.topology, index_.cores()));
    PHUB_RETURN_IF_ERROR(check_load(call.topology, job.place.core_load_bytes));
  }
  if (!job.spec->racks.empty()) {
    const Topology& topology = call.topology;
    PHUB_RETURN_IF_ERROR(
        index_.options.links->check_place(topology.server_index, topology.cores_per_server.size()));
  }
  if (is_rack) {
    PHUB_RETURN_IF_ERROR(make_rack_ready(lock, caller, call));
  } else if (job.place.memory == Memory::kNone) {
    PHUB_RETURN_IF_ERROR(make_on_data_plane(lock, job, call.topology, call.plan_hash));
  } else {
    PHUB_RETURN_IF_ERROR(compare(job, call.topology, call.plan_hash));
  }
  PHUB_RETURN_IF_ERROR(open_links(job));
  caller.member->is_ready = true;
  caller.member->secret_issued = index_.now();
  caller.member->path.core_is_connected.resize(index_.data_plane()->cores(), false);
  return {};
}

// Only this rack's workers know its topology, so they come first.
Status Placement::make_rack_ready(JobIndex::Lock& lock, const JobIndex::Caller& caller,
                                  const ReadyCall& call) {
  Job& job = *caller.job;
  if (job.place.memory != Memory::kHeld) {
    return {Code::kUnavailable, "none of that rack's own workers is ready yet"};
  }
  const Topology& topology = call.topology;
  PHUB_RETURN_IF_ERROR(compare_racks(job, topology, call.plan_hash));
  const auto& racks = job.spec->racks;
  const auto rack = std::find_if(racks.begin(), racks.end(), [&](const RackSpec& one) {
    return one.name == caller.member->rack;
  });
  PHUB_CHECK(rack != racks.end(), "a member that is a rack is one of the job's");
  const auto index = static_cast<std::uint32_t>(rack - racks.begin());
  lock.unlock();
  const Status known = index_.data_plane()->know_rack(
      job.id, index, topology.cores_per_server[topology.server_index]);
  lock.lock();
  if (!known.ok()) return known;
  return is_live(job) ? Status() : job_is_over(job);
}

// REQUIRES: the mutex is not held.
Result<Plan> Placement::plan_of(Job& job, const JobSpec& spec, const Topology& topology) {
  const PlanInput input = plan_input(spec, topology.cores_per_server, topology.core_load_bytes);
  PHUB_ASSIGN_OR_RETURN(const std::shared_ptr<const void> reserved,
                        usage_.admit_plan_of(job, input));
  return make_plan(input);
}

// Ends in kHeld, or in kNone with an error, so that another worker may try.
Status Placement::make_on_data_plane(JobIndex::Lock& lock, Job& job, const Topology& topology,
                                     std::uint64_t plan_hash) {
  JobPlace& place = job.place;
  place.memory = Memory::kCreating;
  place.topology = topology;
  const auto make = [&]() -> Status {
    PHUB_RETURN_IF_ERROR(release_before_creating(lock));
    const std::shared_ptr<const JobSpec> spec = job.spec;  // no longer changes: it has keys
    lock.unlock();
    Result<Plan> plan = plan_of(job, *spec, topology);
    lock.lock();
    if (!plan) return plan.error();
    place.plan = std::make_shared<const Plan>(std::move(*plan));
    PHUB_RETURN_IF_ERROR(compare(job, topology, plan_hash));
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t restored, usage_.admit_memory_of(job));
    place.placed_bytes = load_of(*place.plan, spec->wire_type, topology.server_index);
    const JobLayout layout = layout_of(job);
    StartPoint start = job.start;
    lock.unlock();
    const Result<StartPoint> started = create_job(layout, std::move(start));
    lock.lock();
    job.bytes.copied -= restored;
    if (!started) return started.error();
    job.start = *started;
    return {};
  };
  const Status made = make();
  if (!made.ok()) {
    place.plan = nullptr;
    job.bytes.pinned = 0;
  }
  place.memory = made.ok() ? Memory::kHeld : Memory::kNone;
  if (made.ok() && !is_live(job)) place.memory = Memory::kToRelease;
  index_.changed.notify_all();
  if (!made.ok()) return made.with_context(fmt::format("job \"{}\"", label(job)));
  if (!is_live(job)) return job_is_over(job);
  spdlog::info("event=job_planned job={} id={} chunks={} plan_hash={:016x}", log_value(label(job)),
               job.id, place.plan->chunks.size(), place.plan->hash);
  return {};
}

// By the first member that is ready; the next one, when that failed.
Status Placement::open_links(Job& job) {
  if (job.spec->racks.empty() || job.rack.is_linking) return {};
  PHUB_RETURN_IF_ERROR(
      index_.options.links->open({.job_id = job.id,
                                  .tenant = job.tenant.name,
                                  .tenant_shared_id = job.tenant.shared_id,
                                  .spec = job.spec,
                                  .own = job.rack.own,
                                  .cores_per_server = job.place.topology.cores_per_server,
                                  .server_index = job.place.topology.server_index,
                                  .racks_hash = job.place.plan->racks_hash,
                                  .rounds_before = job.start.rounds_before}));
  job.rack.is_linking = true;
  return {};
}

// Returns the start point with what the snapshot says. REQUIRES: the mutex is not held: it is read.
Result<StartPoint> Placement::create_job(JobLayout layout, StartPoint start) {
  if (!start.file.empty()) {
    if (index_.options.snapshots == nullptr) {
      return Status(Code::kFailedPrecondition,
                    "it starts from a snapshot, but this server has no state folder any more");
    }
    PHUB_ASSIGN_OR_RETURN(layout.initial, index_.options.snapshots->load(start.file, *layout.plan,
                                                                         layout.server_index));
    layout.rounds_before = layout.initial->round - 1;
    start.samples = layout.initial->samples;
  }
  PHUB_RETURN_IF_ERROR(index_.data_plane()->create_job(layout));
  start.rounds_before = layout.rounds_before;
  return start;
}

// The memory of finished jobs is given back first: a new job may need it.
Status Placement::release_before_creating(JobIndex::Lock& lock) {
  release_ended(lock);
  const bool is_released = index_.changed.wait_for(lock, kReleaseDeadline, [this] {
    return !index_.has_memory(Memory::kToRelease) && !index_.has_memory(Memory::kReleasing);
  });
  if (is_released) return {};
  return {Code::kDeadlineExceeded, "the memory of an ended job is not released yet; try again"};
}

void Placement::release_ended(JobIndex::Lock& lock) {
  DataPlane* const data_plane = index_.data_plane();
  while (true) {
    const auto& jobs = index_.all();
    const auto found = std::find_if(jobs.begin(), jobs.end(), [](const auto& entry) {
      return entry.second->place.memory == Memory::kToRelease;
    });
    if (found == jobs.end()) return;
    const std::shared_ptr<Job> job = found->second;
    JobPlace& place = job->place;
    place.memory = Memory::kReleasing;
    lock.unlock();
    JobCounters counters = data_plane->job_counters(job->id).value_or(JobCounters{});
    counters.memory_bytes = 0;
    counters.staging_bytes = 0;
    lock.lock();
    job->final_counters = counters;  // before the others are gone: who reads meanwhile finds these
    lock.unlock();
    data_plane->remove_job(job->id);
    lock.lock();
    place.plan = nullptr;
    place.memory = Memory::kReleased;
    job->bytes.pinned = 0;
    job->bytes.staged_beyond = 0;
    forget_keys(*job);
    spdlog::info("event=job_released job={} id={}", log_value(label(*job)), job->id);
    index_.forget_oldest();
    index_.changed.notify_all();
  }
}

}  // namespace phub::server
