#include "server/plane/plane_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/transport/tcp/sealed_stream.h"

namespace phub::server {
namespace {

void add(const WorkerCounters& counted, WorkerTraffic& traffic, JobCounters& all) {
  traffic.pushes += counted.pushes.value();
  traffic.bytes_received += counted.bytes_received.value();
  traffic.bytes_sent += counted.bytes_sent.value();
  all.bytes_received += counted.bytes_received.value();
  all.bytes_sent += counted.bytes_sent.value();
}

void add_quorum(const QuorumRounds& rounds, QuorumCounters& counters) {
  counters.rounds += rounds.counters.rounds.value();
  counters.incomplete += rounds.counters.incomplete.value();
  counters.graces += rounds.counters.graces.value();
  counters.impatient += rounds.counters.impatient.value();
  counters.workers.resize(rounds.late().size());
  for (std::size_t worker = 0; worker < counters.workers.size(); ++worker) {
    const LateCounters& late = rounds.late()[worker];
    WorkerStaleness& all = counters.workers[worker];
    for (std::size_t i = 0; i < kStalenessBuckets; ++i) all.pushes[i] += late.pushes[i].value();
    all.dropped += late.dropped.value();
    all.withheld += late.withheld.value();
  }
}

void add_counters(const JobOnCore& on_core, const RackPlace& place, JobCounters& counters) {
  counters.chunks += on_core.shard.chunks();
  counters.chunks_completed += on_core.shard.updates.chunks_completed.value();
  counters.staging_bytes += on_core.staging->touched_bytes();
  // Each core counts the rounds that are skipped on all of them.
  counters.rounds_skipped =
      std::max(counters.rounds_skipped, on_core.shard.updates.skipped.rounds.value());
  counters.updates_skipped += on_core.shard.updates.skipped.updates.value();
  counters.queued_pushes += on_core.arrivals.length();
  counters.push_to_reply.add(on_core.times.push_to_reply.counts());
  counters.wait_for_slowest.add(on_core.times.wait_for_slowest.counts());
  if (const QuorumRounds* const rounds = on_core.shard.members.rounds()) {
    add_quorum(*rounds, counters.quorum);
  }
  counters.workers.resize(on_core.workers);
  for (std::uint32_t seat = 0; seat < on_core.workers; ++seat) {
    add(on_core.worker_counters[seat], counters.workers[seat], counters);
  }
  counters.racks.resize(on_core.above_counters.size());
  for (std::uint32_t rack = 0; rack < counters.racks.size(); ++rack) {
    if (rack == place.own()) continue;
    const std::uint32_t seat = place.seat_of(rack, on_core.workers);
    add(on_core.above_counters[rack], counters.racks[rack].above, counters);
    add(on_core.worker_counters[seat], counters.racks[rack].below, counters);
  }
}

}  // namespace

PlaneJob::PlaneJob(const JobLayout& layout, const CoreSet& cores, const Executor& pool)
    : setups(pool),
      shm(layout),
      cores_(cores),
      layout_(layout),
      bookkeeping_bytes_(bytes_of_bookkeeping(layout)),
      connected_(seats(layout) * cores.cores().size()) {}

Result<std::shared_ptr<PlaneJob>> PlaneJob::create(const JobLayout& layout, const CoreSet& cores,
                                                   const Executor& pool) {
  std::shared_ptr<PlaneJob> job(new PlaneJob(layout, cores, pool));
  // Whoever may write to reserved pages could give one back to the pool, for others to take.
  const bool is_shared = layout.rounds.hogwild;
  const Pages pages = cores.ports().empty() || is_shared ? Pages::kTransparent : Pages::kReserved;
  PHUB_ASSIGN_OR_RETURN(job->memory_, JobMemory::create(layout, pages));
  for (std::uint32_t core = 0; core < cores.cores().size(); ++core) {
    PHUB_ASSIGN_OR_RETURN(auto on_core, JobOnCore::create(layout, core, job->memory_));
    job->on_cores_.push_back(std::move(on_core));
  }
  if (job->memory_->norms) {
    job->memory_->norms->set_wake([all = &cores.cores()] {
      for (const auto& core : *all) core->wake();
    });
  }
  job->layout_.initial = nullptr;  // the shards have it
  return job;
}

Status PlaneJob::check_place(std::uint32_t worker, std::uint32_t core) const {
  if (core < on_cores_.size() && worker < seats(layout_)) return {};
  return {Code::kInvalidArgument, "no such core or worker"};
}

Status PlaneJob::take_place(std::uint32_t worker, std::uint32_t core) {
  PHUB_RETURN_IF_ERROR(check_place(worker, core));
  const std::lock_guard lock(mutex_);
  const std::size_t place = worker * on_cores_.size() + core;
  if (connected_[place]) return {Code::kAlreadyExists, "connected already"};
  connected_[place] = true;
  gathered_.forget(place);  // this member came another way, or one before it has gone
  return {};
}

Result<std::vector<ArrivedStream>> PlaneJob::gather(std::uint32_t worker, std::uint32_t core,
                                                    ArrivedStream stream) {
  PHUB_RETURN_IF_ERROR(check_place(worker, core));
  const CoreRoute* const route = route_of(worker, core);
  const std::uint32_t streams =
      route == nullptr ? layout_.tcp_streams : static_cast<std::uint32_t>(route->peers.size());
  const std::lock_guard lock(mutex_);
  const std::size_t place = worker * on_cores_.size() + core;
  if (connected_[place]) return Status(Code::kAlreadyExists, "connected already");
  PHUB_ASSIGN_OR_RETURN(auto all, gathered_.add(place, std::move(stream), streams));
  if (!all.empty()) connected_[place] = true;
  return all;
}

void PlaneJob::give_place(std::uint32_t worker, std::uint32_t core) {
  const std::lock_guard lock(mutex_);
  connected_[worker * on_cores_.size() + core] = false;
}

// The routes are made once, outside of the mutex: a look at what a job takes must not wait.
Status PlaneJob::know_rack(std::uint32_t rack, std::uint32_t cores) {
  const bool has_other_cores = cores != on_cores_.size();
  {
    const std::lock_guard lock(mutex_);
    const auto known = rack_cores_.find(rack);
    if (known != rack_cores_.end() && known->second != cores) {
      return {Code::kFailedPrecondition, "it has " + std::to_string(cores) + " cores, and said " +
                                             std::to_string(known->second) +
                                             " before; was it started again? Start the job again"};
    }
    if (known != rack_cores_.end()) return {};
  }
  std::vector<CoreRoute> routes;
  if (has_other_cores) routes = make_rack_routes(layout_, rack, cores);
  const std::lock_guard lock(mutex_);
  if (!rack_cores_.emplace(rack, cores).second) return {};  // somebody else was faster
  if (has_other_cores) routes_.emplace(rack, std::move(routes));
  return {};
}

const CoreRoute* PlaneJob::route_to(std::uint32_t rack, std::uint32_t core) const {
  const std::lock_guard lock(mutex_);
  const auto found = routes_.find(rack);
  return found == routes_.end() ? nullptr : &found->second[core];
}

const CoreRoute* PlaneJob::route_of(std::uint32_t seat, std::uint32_t core) const {
  if (seat < layout_.workers) return nullptr;
  return route_to(layout_.rack.rack_at(seat, layout_.workers), core);
}

Result<std::shared_ptr<VerbsMemory>> PlaneJob::memory_for(std::uint32_t core) {
  const std::vector<OpenPort>& ports = cores_.ports();
  const auto& device = ports[core].device;
  if (const auto found = verbs_.find(device.get()); found != verbs_.end()) return found->second;
  std::vector<std::uint32_t> served;
  for (std::uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].device == device) served.push_back(i);
  }
  PHUB_ASSIGN_OR_RETURN(auto memory, VerbsMemory::create(device, memory_, layout_, served));
  const std::lock_guard lock(mutex_);  // whoever counts looks at the table
  verbs_[device.get()] = memory;
  return memory;
}

void PlaneJob::drop(std::uint32_t worker) {
  const std::lock_guard lock(setup);
  if (is_detached) return;
  {
    const std::lock_guard places(mutex_);
    for (std::size_t core = 0; core < on_cores_.size(); ++core) {
      gathered_.forget(worker * on_cores_.size() + core);
    }
  }
  for (std::size_t core = 0; core < on_cores_.size(); ++core) {
    cores_.cores()[core]->lose(on_cores_[core].get(), worker, "it was lost on another way");
  }
}

void PlaneJob::detach() {
  const std::lock_guard lock(setup);  // nobody is being connected
  is_detached = true;
  {
    const std::lock_guard places(mutex_);
    gathered_.clear();
  }
  for (std::size_t core = 0; core < on_cores_.size(); ++core) {
    cores_.cores()[core]->attachments().detach(on_cores_[core].get());
  }
}

std::uint64_t PlaneJob::touched_bytes() const {
  std::uint64_t elements = 0;
  for (const auto& on_core : on_cores_) elements += on_core->shard.updates.elements_touched.value();
  return elements * memory_->element_bytes() + bookkeeping_bytes_;
}

std::uint64_t PlaneJob::staging_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& on_core : on_cores_) bytes += on_core->staging->touched_bytes();
  return bytes;
}

// Copied by the cores between two rounds, where there is something to tell. `finder_of` tells of a
// shard what has findings; null: it has none.
template <typename Found, typename FinderOf>
std::vector<Found> PlaneJob::found_by(FinderOf finder_of) const {
  std::vector<Found> all;
  for (std::size_t core = 0; core < on_cores_.size(); ++core) {
    const auto* const finder = finder_of(std::as_const(on_cores_[core]->shard));
    if (finder == nullptr || finder->findings.value() == 0) continue;
    std::vector<Found> here;
    cores_.cores()[core]->call([&] { here = finder->workers(); });
    add(here, all);
  }
  return all;
}

std::uint64_t PlaneJob::staged_beyond(const Offered& offered) const {
  const std::uint64_t bytes = staging_bytes();
  std::uint64_t counted = offered.staging ? bytes_of_staging(layout_) : 0;
  if (defers_updates(layout_)) counted += elements_here(layout_) * sizeof(float);  // held sums
  return bytes - std::min(bytes, counted);
}

void PlaneJob::add_to(Room& room, const Offered& offered) const {
  const std::uint64_t pinned = bytes_pinned(layout_, offered);
  const std::uint64_t beyond = staged_beyond(offered);
  std::uint64_t touched = touched_bytes() + staging_bytes() - beyond;
  const std::lock_guard lock(mutex_);
  for (const auto& [device, memory] : verbs_) touched += memory->window_bytes();
  if (offered.sealing) {
    const auto connected = std::count(connected_.begin(), connected_.end(), true);
    touched += static_cast<std::uint64_t>(connected) * layout_.tcp_streams *
               transport::SealedStream::buffer_bytes();
  }
  room.admitted_bytes += pinned + beyond;
  room.untouched_bytes += pinned - std::min(pinned, touched);
}

JobCounters PlaneJob::counters() const {
  JobCounters counters;
  counters.rounds_before = layout_.rounds_before;
  for (const auto& on_core : on_cores_) add_counters(*on_core, layout_.rack, counters);
  counters.values = found_by<WorkerValues>([](const Shard& shard) { return shard.reader.watch(); });
  counters.corruption =
      found_by<WorkerCorruption>([](const Shard& shard) { return shard.reader.checks(); });
  counters.reserved_page_bytes = memory_->reserved_page_bytes();
  const std::lock_guard lock(mutex_);
  for (const auto& [device, memory] : verbs_) {
    counters.staging_bytes += memory->window_bytes();
    counters.reserved_page_bytes += memory->reserved_page_bytes();
  }
  counters.memory_bytes = counters.staging_bytes + touched_bytes();
  return counters;
}

}  // namespace phub::server
