#include "server/core.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/affinity.h"
#include "common/wire.h"

namespace phub::server {

using transport::Completion;
using transport::CompletionKind;

namespace {
constexpr std::size_t kReadsInATurn = 16;
constexpr std::size_t kServedAtOnce = 8;
constexpr std::chrono::milliseconds kLongestSleep{500};
// While answers wait for room: who reads a ring does not wake the one that fills it.
constexpr std::chrono::milliseconds kLongestSleepWithAnswers{5};

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

std::string_view reason_of(transport::Loss loss) {
  switch (loss) {
    case transport::Loss::kClosed:
      return "its connection closed";
    case transport::Loss::kBadTag:
      return "its encrypted stream was changed on the way";
    case transport::Loss::kUnreadable:
      return "the memory that it shares could not be read";
    default:
      return "its connection broke the protocol";
  }
}
}  // namespace

Core::Core(const CoreOptions& options, std::uint32_t max_connections)
    : options_(options),
      tcp_connections_(max_connections),
      shm_connections_(max_connections),
      verbs_connections_(options.device ? max_connections : 0),
      events_(4 * static_cast<std::size_t>(max_connections)) {
  dirty_.reserve(2 * static_cast<std::size_t>(max_connections));
  held_.reserve(max_connections);
  releasing_.reserve(3 * static_cast<std::size_t>(max_connections));
}

Result<std::unique_ptr<Core>> Core::create(const CoreOptions& options) {
  std::unique_ptr<Core> core(new Core(options, options.max_connections));
  PHUB_ASSIGN_OR_RETURN(
      core->tcp_, transport::TcpEndpoint::create({.max_peers = options.max_connections}, *core));
  PHUB_ASSIGN_OR_RETURN(
      core->shm_, transport::ShmEndpoint::create(options.max_connections, &core->shm_places_));
  std::vector<transport::Endpoint*> endpoints = {core->shm_.get(), core->tcp_.get()};
  if (options.device) {
    PHUB_ASSIGN_OR_RETURN(core->verbs_,
                          transport::VerbsEndpoint::create(options.device, options.max_connections,
                                                           core->places_, core->places_));
    endpoints.push_back(core->verbs_.get());
  }
  PHUB_ASSIGN_OR_RETURN(core->waiter_,
                        transport::Waiter::create(options.waiting, std::move(endpoints)));
  if (!options.own_thread) return core;
  Status pinned;
  core->thread_ = std::jthread([raw = core.get()](const std::stop_token& stop) { raw->run(stop); });
  if (options.cpu) core->call([&] { pinned = pin_this_thread(*options.cpu); });
  if (!pinned.ok()) return pinned;
  return core;
}

Core::~Core() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  waiter_->interrupt();
  thread_.join();
  tcp_.reset();  // gives back half-received payloads, which needs the connections
}

void Core::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    while (auto task = tasks_.pop()) {
      (*task)->run();
      (*task)->done.release();
    }
    if (run_once()) {
      waiter_->busy();
    } else {
      waiter_->idle(dirty_.empty() ? kLongestSleep : kLongestSleepWithAnswers);
    }
  }
}

void Core::call(std::function<void()> function) {
  if (!thread_.joinable()) return function();
  Task task{.run = std::move(function)};
  const std::lock_guard lock(task_mutex_);
  PHUB_CHECK(tasks_.push(&task), "one task at a time fits");
  waiter_->interrupt();
  task.done.acquire();
}

// ---- the data path ---------------------------------------------------------------------------

bool Core::run_once() {
  const bool shm = drain(*shm_, shm_connections_);
  const bool tcp = drain(*tcp_, tcp_connections_);
  const bool verbs = verbs_ && drain(*verbs_, verbs_connections_);
  const bool more = serve();
  if (!releasing_.empty()) release();
  const bool any = shm || tcp || verbs || more || !releasing_.empty();
  // While there is work, answers are gathered: a few in one call wake a worker once.
  answer(!any);
  if (!held_.empty()) release_held();
  return any;
}

bool Core::drain(transport::Endpoint& endpoint,
                 std::vector<std::unique_ptr<Connection>>& connections) {
  const bool reads = &endpoint == tcp_.get();  // the others' payloads are there already
  if (reads) ++tcp_polls_;
  const std::uint64_t start = reads ? ticks() : 0;
  const std::size_t count = endpoint.poll(completions_);
  if (count == 0) return false;
  const std::uint64_t now = ticks();
  if (reads) attribute_reading({completions_.data(), count}, now - start);
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    Connection* connection = connections[completion.peer].get();
    if (connection == nullptr || connection->lost) continue;
    if (completion.kind == CompletionKind::kArrived) {
      on_arrived(*connection, completion, now);
    } else if (completion.kind == CompletionKind::kPeerLost) {
      drop_peer(*connection, drop_of(completion.loss), reason_of(completion.loss));
    }
  }
  return true;
}

// What reading cost, to each job by its bytes. What poll sends to sockets that were full is in it.
void Core::attribute_reading(std::span<const Completion> arrived, std::uint64_t spent) {
  std::uint64_t bytes = 0;
  for (const Completion& completion : arrived) bytes += completion.bytes;
  if (bytes == 0) return;
  for (const Completion& completion : arrived) {
    Connection* connection = tcp_connections_[completion.peer].get();
    if (connection == nullptr || connection->lost) continue;
    spend(*connection, completion.bytes, spent * completion.bytes / bytes);
  }
}

void Core::on_arrived(Connection& connection, const Completion& arrived, std::uint64_t now) {
  Shard& shard = *connection.shard;
  bytes_received_.add(arrived.bytes);
  if (!wire::same_epoch(arrived.immediate, shard.epoch())) {
    drops_.count(Drop::kStaleEpoch);
    const bool control = wire::is_control(wire::slot_of(arrived.immediate));
    if (!connection.in_place && !control) shard.give_buffer(arrived.data);
    shares_.charge(shard, connection.prices->cost(arrived.bytes));  // no sample: nothing is done
    return;
  }
  if (connection.queued > shard.chunks() + 1) {  // each chunk once, a Hyper and a Vote
    return drop_peer(connection, Drop::kDuplicatePush, "it pushed a chunk twice in one round");
  }
  ++connection.queued;
  shard.arrivals->push({.connection = &connection,
                        .data = arrived.data,
                        .immediate = arrived.immediate,
                        .bytes = arrived.bytes,
                        .arrived = now});
  shares_.wake(shard);
  hold_back(connection);
}

// Takes some of what waits; true if there may be more. While several jobs want the core it looks
// for arrivals again after every few pushes: turns would follow what happened to come in first, and
// what has been read would be served when it is no longer in the cache. A job whose turn it is and
// that has nothing here but something to be read, or to be released, comes next.
bool Core::serve() {
  while (FairShare::Flow* flow = shares_.next()) {
    Shard& shard = static_cast<Shard&>(*flow);
    if (shares_.awake() == 1) {
      serve_alone(shard);
      return false;
    }
    const bool is_readable = shard.readable_at_poll == tcp_polls_;
    if (shard.arrivals->empty()) {
      if (is_readable || shard.is_releasing) return true;  // others wait meanwhile: no sleep
      shares_.rest(*flow);
      continue;
    }
    serve_some(shard);
    if (shard.arrivals->empty() && !is_readable && !shard.is_releasing) shares_.rest(*flow);
    return true;
  }
  return false;
}

// A few pushes of one kind, while its turn can pay for them, with one stamp for all. REQUIRES: some
// wait.
void Core::serve_some(Shard& shard) {
  const std::uint64_t start = ticks();
  const ArrivalQueue& waiting = *shard.arrivals;
  Connection& connection = *waiting.front().connection;
  const std::uint32_t bytes = waiting.front().bytes;
  const std::uint64_t owed = shares_.owed(shard);
  std::uint64_t cost = 0;
  std::size_t served = 0;
  do {
    serve(shard.arrivals->pop());
    cost += connection.prices->cost(bytes);
  } while (++served < kServedAtOnce && cost < owed && !waiting.empty() &&
           waiting.front().bytes == bytes &&
           waiting.front().connection->prices == connection.prices);
  spend(connection, bytes, ticks() - start);
  // For a job that has stopped nothing is done: no sample of what such pushes take.
  if (!shard.stopped()) connection.prices->served(bytes, served);
  shares_.charge(shard, cost);
}

// Nobody else wants the core: no turns, and one stamp for all that waits.
void Core::serve_alone(Shard& shard) {
  const std::uint64_t start = ticks();
  while (!shard.arrivals->empty()) serve(shard.arrivals->pop());
  shard.times->worked(ticks() - start);
  if (shard.readable_at_poll != tcp_polls_) shares_.rest(shard);
}

void Core::serve(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  --connection.queued;
  const std::uint32_t slot = wire::slot_of(arrival.immediate);
  const bool control = wire::is_control(slot);
  if (connection.lost) {  // and its memory with it
    if (!connection.in_place && !control) connection.shard->give_buffer(arrival.data);
  } else if (control) {
    slot == wire::kHyperSlot ? on_hyper(arrival) : on_vote(arrival);
  } else {
    on_chunk(arrival);
  }
}

// Core time that pushes of about this size took, of whichever of their parts.
void Core::spend(Connection& connection, std::uint32_t bytes, std::uint64_t spent) {
  connection.shard->times->worked(spent);
  if (shares_.awake() > 1) connection.prices->spent(bytes, spent);
}

void Core::on_hyper(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  if (arrival.bytes != sizeof(Hyper)) {
    drop_peer(connection, Drop::kBadLength, "it sent hyper-parameters of a wrong size");
    return;
  }
  std::memcpy(&connection.hyper, arrival.data, sizeof(Hyper));
}

void Core::on_chunk(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  Shard& shard = *connection.shard;
  const std::uint32_t slot = wire::slot_of(arrival.immediate);
  ++connection.pushes;
  switch (shard.arrive({.worker = connection.worker,
                        .slot = slot,
                        .data = arrival.data,
                        .bytes = arrival.bytes,
                        .staged = !connection.in_place,
                        .hyper = &connection.hyper})) {
    case Outcome::kAccepted:
      return shard.times->pushed(connection.worker, slot, arrival.arrived);
    case Outcome::kCompleted:
      shard.times->pushed(connection.worker, slot, arrival.arrived);
      shard.times->gathered(slot, arrival.arrived, rate_);
      shard.times->completed(slot, ticks());
      return on_complete(shard, slot);
    case Outcome::kReleasable:
      release_soon(shard);
      [[fallthrough]];
    case Outcome::kHeld:
      shard.times->pushed(connection.worker, slot, arrival.arrived);
      return shard.times->gathered(slot, arrival.arrived, rate_);
    case Outcome::kStopped:
      return drops_.count(Drop::kLateWrite);
    case Outcome::kUnknownChunk:
      return drop_peer(connection, Drop::kUnknownChunk, "it pushed a chunk that does not exist");
    case Outcome::kBadLength:
      return drop_peer(connection, Drop::kBadLength, "it pushed a chunk of a wrong size");
    case Outcome::kDuplicate:
      return drop_peer(connection, Drop::kDuplicatePush, "it pushed a chunk twice in one round");
  }
}

// Whether what a worker sends is to be left in its buffers: staging beyond the budget means that
// some workers are far ahead of others. Those wait until the slowest, which never does, has caught
// up.
bool Core::is_to_wait(const Connection& connection) const {
  const Shard& shard = *connection.shard;
  return shard.staging_is_full() && shard.is_ahead(connection);
}

void Core::hold_back(Connection& connection) {
  if (connection.in_place || connection.paused || !is_to_wait(connection)) return;
  connection.paused = true;
  connection.endpoint->pause(connection.peer, true);
  held_.push_back(&connection);
}

void Core::release_held() {
  std::erase_if(held_, [this](Connection* connection) {
    if (!connection->lost) {
      if (is_to_wait(*connection)) return false;
      connection->endpoint->pause(connection->peer, false);
    }
    connection->paused = false;
    return true;
  });
}

// Ends one worker's connection; the job cannot go on without it, other jobs do not notice.
void Core::drop_peer(Connection& connection, Drop cause, std::string_view reason) {
  if (connection.lost) return;
  connection.lost = true;
  if (cause != Drop::kCount) drops_.count(cause);
  Shard& shard = *connection.shard;
  shard.stop();
  shard.connections[connection.worker] = nullptr;
  events_.push({shard.job_id(), connection.worker, reason});
  connections_.fetch_sub(1, std::memory_order_relaxed);
  connection.endpoint->remove(connection.peer);
  if (options_.on_event) options_.on_event();
}

// Reading is work for the job that is read from: while others want the core, in its turns only, and
// no more than is served.
std::size_t Core::reads_now(transport::PeerId peer) {
  const Connection& connection = *tcp_connections_[peer];
  Shard& shard = *connection.shard;
  shard.readable_at_poll = tcp_polls_;
  shares_.wake(shard);
  if (shares_.awake() == 1) return SIZE_MAX;
  const std::uint64_t owed = shares_.owed(shard);
  if (owed == 0 || shard.arrivals->size() >= kReadsInATurn) return 0;
  const std::uint64_t cost = connection.prices->cost(shard.push_bytes(0)) * shard.workers();
  return std::min<std::uint64_t>(1 + (owed - 1) / cost, kReadsInATurn);
}

std::byte* Core::place(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) {
  Connection& connection = *tcp_connections_[peer];
  if (wire::slot_of(immediate) == wire::kHyperSlot) {
    if (bytes != sizeof(Hyper)) return nullptr;
    return reinterpret_cast<std::byte*>(&connection.arriving_hyper);
  }
  if (wire::slot_of(immediate) == wire::kVoteSlot) {
    if (bytes != sizeof(Vote)) return nullptr;
    return reinterpret_cast<std::byte*>(&connection.arriving_vote);
  }
  if (bytes != connection.shard->push_bytes(wire::slot_of(immediate))) return nullptr;
  return connection.shard->take_push_buffer();
}

void Core::abandon(transport::PeerId peer, std::byte* data) {
  Connection& connection = *tcp_connections_[peer];
  if (data != reinterpret_cast<std::byte*>(&connection.arriving_hyper) &&
      data != reinterpret_cast<std::byte*>(&connection.arriving_vote)) {
    connection.shard->give_buffer(data);
  }
}

}  // namespace phub::server
