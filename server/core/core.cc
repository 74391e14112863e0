#include "server/core/core.h"

#include <algorithm>
#include <chrono>

#include "common/base/affinity.h"
#include "common/protocol/wire.h"

namespace phub::server {

using transport::Completion;
using transport::CompletionKind;

namespace {
constexpr std::size_t kLanesMax = 3;
constexpr std::size_t kServedAtOnce = 8;
// So many bytes are served between two looks at the clock.
constexpr std::size_t kBytesPerStamp = std::size_t{256} << 10;
constexpr std::chrono::milliseconds kLongestSleep{500};
// While replies wait for room: who reads a ring does not wake the one that fills it.
constexpr std::chrono::milliseconds kLongestSleepWithReplies{5};

Drop drop_of(transport::Loss loss) {
  switch (loss) {
    case transport::Loss::kBadFrame:
      return Drop::kBadFrame;
    case transport::Loss::kBadLength:
    case transport::Loss::kRefused:
      return Drop::kBadLength;
    case transport::Loss::kBadMemory:
    case transport::Loss::kUnreadable:
      return Drop::kBadMemory;
    case transport::Loss::kBadTag:
      return Drop::kBadTag;
    default:
      return Drop::kCount;
  }
}

std::string_view reason_of(transport::Loss loss, const Connection& connection) {
  switch (loss) {
    case transport::Loss::kClosed:
      return connection.streams == 1 ? "its connection closed" : "one of its tcp streams closed";
    case transport::Loss::kBadTag:
      return "its encrypted stream was changed on the way";
    case transport::Loss::kUnreadable:
      return "the memory that it shares could not be read";
    default:
      return "its connection broke the protocol";
  }
}

}  // namespace

// Jobs and connections are as many as the lanes have room for, at most.
Core::Core(const CoreOptions& options)
    : options_(options),
      turns_(Clock(options.time)),
      replies_(kLanesMax * options.max_connections, turns_),
      due_(kLanesMax * options.max_connections, turns_, replies_),
      losses_(options.max_connections, due_, replies_, options.on_event),
      dispatch_(turns_, replies_, due_, losses_),
      paused_(options.max_connections) {}

Result<std::unique_ptr<Core>> Core::create(const CoreOptions& options) {
  std::unique_ptr<Core> core(new Core(options));
  CoreLanes& lanes = core->lanes_;
  PHUB_ASSIGN_OR_RETURN(lanes.shm, ShmLane::create(options.max_connections));
  PHUB_ASSIGN_OR_RETURN(lanes.tcp,
                        TcpLane::create(options.max_connections, options.tcp_front, core->turns_));
  lanes.all = {lanes.shm.get(), lanes.tcp.get()};
  if (options.device) {
    PHUB_ASSIGN_OR_RETURN(lanes.verbs, VerbsLane::create(options.max_connections, options.device));
    lanes.all.push_back(lanes.verbs.get());
  }
  std::vector<transport::Endpoint*> endpoints;
  for (const Lane* lane : lanes.all) endpoints.push_back(&lane->endpoint());
  PHUB_ASSIGN_OR_RETURN(auto waiter,
                        transport::Waiter::create(options.waiting, std::move(endpoints)));
  core->thread_ = std::make_unique<CoreThread>(std::move(waiter));
  core->attachments_.emplace(Attachments::Parts{.lanes = lanes,
                                                .thread = *core->thread_,
                                                .turns = core->turns_,
                                                .replies = core->replies_,
                                                .due = core->due_,
                                                .paused = core->paused_,
                                                .losses = core->losses_});
  if (!options.own_thread) return core;
  core->thread_->start(
      [&raw = *core] { return raw.run_once() ? std::chrono::milliseconds(0) : raw.rest(); });
  Status pinned;
  if (options.cpu) core->call([&] { pinned = pin_this_thread(*options.cpu); });
  if (!pinned.ok()) return pinned;
  return core;
}

std::chrono::milliseconds Core::rest() const {
  const auto longest = replies_.empty() ? kLongestSleep : kLongestSleepWithReplies;
  return due_.rest(longest);
}

void Core::lose(JobOnCore* job, std::uint32_t worker, std::string_view reason) {
  call([&] {
    const auto& connection = job->connections[worker];
    if (connection) losses_.drop(*connection, Drop::kCount, reason);
  });
}

CoreCounters Core::counters() const {
  const auto alive = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - started_);
  const std::uint64_t total = static_cast<std::uint64_t>(alive.count());
  return {.cpu = options_.cpu ? static_cast<std::int32_t>(*options_.cpu) : -1,
          .chunks_completed = replies_.chunks_completed.value(),
          .bytes_received = bytes_received_.value(),
          .bytes_sent = replies_.bytes_sent.value(),
          .busy_nanoseconds = total - std::min(total, thread_->waiter().slept_nanoseconds()),
          .sleeps = thread_->waiter().sleeps(),
          .connections = losses_.connections.load(std::memory_order_relaxed)};
}

// ---- the data path ---------------------------------------------------------------------------

bool Core::run_once() {
  bool any = false;
  for (Lane* lane : lanes_.all) any = drain(*lane) || any;
  any = serve() || any;
  if (!due_.empty()) any = due_.run() || any;
  // While there is work, replies are batched: a few in one call wake a worker once.
  replies_.send(!any);
  return (!paused_.empty() && paused_.resume()) || any;
}

// What the endpoint brings of itself: everything, or over tcp losses only, for streams are read in
// their jobs' turns.
bool Core::drain(Lane& lane) {
  const std::size_t count = lane.endpoint().poll(completions_);
  if (count == 0) return false;
  const std::uint64_t now = turns_.now();
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    Connection* connection = lane.connections[completion.peer];
    if (connection == nullptr || connection->lost) continue;
    if (completion.kind == CompletionKind::kArrived) {
      on_arrived(*connection, completion, now);
    } else if (completion.kind == CompletionKind::kPeerLost) {
      losses_.drop(*connection, drop_of(completion.loss), reason_of(completion.loss, *connection));
    }
  }
  return true;
}

// True if something arrived.
bool Core::read(JobOnCore& job) {
  const std::size_t count = lanes_.tcp->read(job, completions_);
  if (count == 0) return false;
  const std::uint64_t now = turns_.now();
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    Connection& connection = *lanes_.tcp->connections[completion.peer];
    if (connection.lost) {  // by what came before in the same look
      Dispatch::give_back(connection, completion.immediate, completion.data);
    } else {
      on_arrived(connection, completion, now);
    }
  }
  return true;
}

void Core::on_arrived(Connection& connection, const Completion& arrived, std::uint64_t now) {
  JobOnCore& job = *connection.job;
  bytes_received_.add(arrived.bytes);
  if (!wire::same_epoch(arrived.immediate, connection.epoch)) {
    losses_.count(Drop::kStaleEpoch);
    Dispatch::give_back(connection, arrived.immediate, arrived.data);
    // No sample: nothing is done.
    turns_.shares.charge(job, connection.prices->cost(arrived.bytes));
    return;
  }
  if (connection.queued >= connection.most_queued) {
    Dispatch::give_back(connection, arrived.immediate, arrived.data);
    return losses_.drop(connection, Drop::kDuplicatePush, "it pushed a chunk twice in one round");
  }
  ++connection.queued;
  job.arrivals.push({.connection = &connection,
                     .data = arrived.data,
                     .immediate = arrived.immediate,
                     .bytes = arrived.bytes,
                     .arrived = now});
  turns_.shares.wake(job);
  paused_.pause_if_ahead(connection);
}

// Takes some of what waits; true if it took something, or there may be more. While several jobs
// want the core it looks for arrivals again after every few pushes: turns would follow what
// happened to come in first, and what has been read would be served when it is no longer in the
// cache. A job whose turn it is and that has nothing whole here, but something that it is still to
// pay for, or updates that are due, comes next.
bool Core::serve() {
  while (FairShare::Flow* flow = turns_.shares.next()) {
    JobOnCore& job = static_cast<JobOnCore&>(*flow);
    if (!turns_.are_taken()) return serve_alone(job);
    read(job);
    const bool serves = !job.arrivals.empty();
    if (serves) serve_some(job);
    if (job.arrivals.empty() && job.ready.empty() && !job.shard.updates.has_due()) {
      turns_.shares.rest(*flow);
      if (!serves) continue;
    }
    return true;  // others wait meanwhile: no sleep
  }
  return false;
}

// A few pushes of one kind, while its turn can pay for them, with one stamp for all. REQUIRES: some
// wait.
void Core::serve_some(JobOnCore& job) {
  const std::uint64_t start = turns_.now();
  const ArrivalQueue& waiting = job.arrivals;
  Connection& connection = *waiting.front().connection;
  const std::uint32_t bytes = waiting.front().bytes;
  const std::uint64_t owed = turns_.shares.owed(job);
  std::uint64_t cost = 0;
  std::size_t served = 0;
  do {
    dispatch_.serve(job.arrivals.pop());
    cost += connection.prices->cost(bytes);
  } while (++served < kServedAtOnce && cost < owed && !waiting.empty() &&
           waiting.front().bytes == bytes &&
           waiting.front().connection->prices == connection.prices);
  turns_.spend(connection, bytes, turns_.now() - start);
  // For a job that has stopped nothing is done: no sample of what such pushes take.
  if (!job.shard.stopped()) connection.prices->served(bytes, served);
  turns_.shares.charge(job, cost);
}

// Nobody else wants the core: nothing is charged. But others may come, and replies are to go, so
// that it is not for longer than a turn.
bool Core::serve_alone(JobOnCore& job) {
  const bool reads = read(job);
  const bool serves = !job.arrivals.empty();
  const std::uint64_t start = turns_.now();
  std::uint64_t spent = 0;
  std::size_t bytes = 0;
  while (!job.arrivals.empty() && spent < turns_.turn_ticks) {
    const Arrival arrival = job.arrivals.pop();
    bytes += arrival.bytes;
    dispatch_.serve(arrival);
    if (bytes < kBytesPerStamp) continue;
    bytes = 0;
    spent = turns_.now() - start;
  }
  job.times.worked(turns_.now() - start);
  const bool more = !job.arrivals.empty() || !job.ready.empty();
  if (!more) turns_.shares.rest(job);
  return reads || serves || more;
}

}  // namespace phub::server
