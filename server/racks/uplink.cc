#include "server/racks/uplink.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/log_value.h"
#include "server/rpc/messages/messages.h"
#include "server/tenants/tenant.h"

namespace phub::server {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// Of one call: a server may not be there yet, or stand still.
constexpr milliseconds kCallTimeout{2000};
constexpr std::chrono::microseconds kJoinTimePerKey{10};
constexpr milliseconds kConnectTimeout{5000};
constexpr milliseconds kIntervalMax{1000};
constexpr milliseconds kJoinPause{200};
constexpr milliseconds kReadyTimeout{30'000};  // its memory may have to be made
constexpr milliseconds kLeaveTimeout{1000};
constexpr milliseconds kDiagnosisPause{20};
constexpr std::size_t kReasonCharsMax = 1024;  // with other servers' words in it

// kAlreadyExists: a job of that name which is about to end there.
bool may_pass(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded ||
         status.code() == Code::kAlreadyExists;
}

// Each rack has the parameters of its own snapshot, until the first replies come.
Status compare_rounds(const LinkedRack& job, std::uint64_t there) {
  if (there == job.rounds_before) return {};
  return {Code::kFailedPrecondition,
          fmt::format("job {} has {} rounds behind it there and {} in rack {}: restore the "
                      "snapshots of one round in all racks (`phubctl snapshots`)",
                      job.spec->name, there, job.rounds_before, job.spec->racks[job.own].name)};
}

Status over_there(const std::string& rack, const std::string& reason) {
  const std::string why = reason.empty() ? "the job has ended there" : reason;
  return {Code::kAborted, fmt::format("rack {}: {}", rack, why)};
}

// Whether a configured transport can carry the sums of such a job between such servers.
Status check_transport(const std::string& transport, bool goes_on, std::uint32_t own_cores,
                       std::uint32_t their_cores) {
  if (transport == "auto" || transport == "tcp") return {};
  if (own_cores != their_cores) {
    return {Code::kFailedPrecondition,
            fmt::format("rack_transport: {} is for servers with as many cores, and this one has "
                        "{}, that one {}; set it to tcp or auto, or `cores` alike",
                        transport, own_cores, their_cores)};
  }
  if (!goes_on) return {};
  return {Code::kFailedPrecondition,
          fmt::format("rack_transport: {} has no place for replies at different times, and this "
                      "job has rack_rounds; set it to tcp or auto, or leave rack_rounds out",
                      transport)};
}

}  // namespace

Uplink::Uplink(LinkedRack job, UplinkOptions options, const UplinkParts& parts)
    : job_id_(job.job_id),
      goes_on_(job.spec->rack_local.goes_on()),
      job_(std::move(job)),
      options_(std::move(options)),
      parts_(parts),
      end_([this, id = job_.job_id](const client::PlannedEnd::Heard& heard) {
        parts_.events.on_end_planned(id, printable(heard.reason, kReasonCharsMax), heard.last_step);
      }) {
  for (std::uint32_t rack = 0; rack < job_.spec->racks.size(); ++rack) {
    if (rack != job_.own) others_.push_back({.rack = rack, .name = job_.spec->racks[rack].name});
  }
  thread_ = std::thread([this] { run(); });
}

Uplink::~Uplink() {
  close("the server stopped");
  thread_.join();
}

void Uplink::run() {
  Status status = link();
  if (status.ok() && !state_.is_closed()) {
    spdlog::info("event=racks_linked job={} id={} racks={}", log_value(job_.spec->name),
                 job_.job_id, others_.size());
    parts_.events.on_linked(job_.job_id);
    while (status.ok() && !state_.is_closed()) {
      status = look();
      if (status.ok()) state_.wait();
    }
  }
  if (!status.ok()) {
    // Which closes it, with this reason.
    parts_.events.on_unlinked(job_.job_id, printable(status.message(), kReasonCharsMax));
  }
  leave();
  job_.spec = nullptr;  // this object may stay for a while, and keys are counted
  state_.end();
}

// All are joined before any is connected: each makes the job's memory before it takes connections.
Status Uplink::link() {
  for (Other& other : others_) PHUB_RETURN_IF_ERROR(join(other));
  for (Other& other : others_) {
    if (state_.is_closed()) break;  // and it may not have joined
    PHUB_RETURN_IF_ERROR(connect(other));
  }
  std::vector<LinkedServer> linked;
  for (const Other& other : others_) linked.push_back({other.name, other.address, other.server});
  state_.set_linked(std::move(linked));
  return {};
}

// Until it is there, the job is closed, or it says no.
Status Uplink::join(Other& other) {
  std::string delay;
  while (!state_.is_closed()) {
    const Status joined = join_once(other);
    if (joined.ok()) return joined;
    const Status why = named(other, joined);
    if (!may_pass(joined)) return why;
    if (std::exchange(delay, why.message()) != why.message()) {
      parts_.events.on_delayed(job_.job_id, printable(why.message(), kReasonCharsMax));
    }
    PHUB_RETURN_IF_ERROR(look());
    state_.wait_for(kJoinPause);
  }
  return {};
}

Status Uplink::join_once(Other& other) {
  const std::vector<RackEntry> racks = parts_.directory.racks();
  const auto found = std::find_if(racks.begin(), racks.end(),
                                  [&](const RackEntry& rack) { return rack.name == other.name; });
  if (found == racks.end()) {
    return {Code::kUnavailable, "it is not in this server's directory of racks"};
  }
  // From an etcd they may come one by one, and those behind one that is missing have its place.
  if (found->servers.size() < job_.cores_per_server.size()) {
    return {Code::kUnavailable, fmt::format("{} of its servers are known, this rack has {} in the "
                                            "job: racks have as many",
                                            found->servers.size(), job_.cores_per_server.size())};
  }
  // It goes on connecting between tries: TLS may take longer than one.
  const std::string& address = found->servers[job_.server_index];
  if (!other.server || other.address != address) {
    other.address = address;
    ClientSecurity security = options_.security;
    if (job_.tenant != kDefaultTenant) security.tenant = job_.tenant;
    PHUB_ASSIGN_OR_RETURN(other.server, client::Rendezvous::create(address, security));
  }
  const auto more =
      std::chrono::duration_cast<milliseconds>(job_.spec->keys.size() * kJoinTimePerKey);
  const client::JoiningRack self{.name = job_.spec->racks[job_.own].name,
                                 .address = parts_.directory.own_address(),
                                 .tenant_shared_id = job_.tenant_shared_id};
  PHUB_ASSIGN_OR_RETURN(other.joined,
                        other.server->join_as_rack(*job_.spec, self, call_timeout() + more));
  begin_pulse(other);
  return parts_.data_plane.know_rack(job_id_, other.rack, other.joined.cores);
}

// A pulse asks at least every second: how the job goes there is news here.
void Uplink::begin_pulse(Other& other) {
  other.server->share(&end_, /*is_first=*/true);
  other.pulse = std::make_unique<client::Pulse>(
      *other.server,
      client::PulseOptions{.interval = std::min(kIntervalMax, other.joined.heartbeat_interval),
                           .deadline = options_.heartbeat_deadline},
      [this, rack = other.name, address = other.address](const Result<client::Beat>& last) {
        const Status why =
            last ? over_there(rack, last->reason)
                 : Status(Code::kUnavailable,
                          fmt::format("rack {} ({}) is lost: it did not reply for {} ms", rack,
                                      address, options_.heartbeat_deadline.count()));
        if (!goes_on_) return state_.fail(why);
        parts_.events.on_rack_lost(job_id_, rack, printable(why.message(), kReasonCharsMax));
      });
  if (state_.told_complete()) other.pulse->tell_complete();
}

Status Uplink::connect(Other& other) {
  const Status chosen = choose_way(other);
  if (!chosen.ok()) return named(other, chosen);
  PHUB_RETURN_IF_ERROR(make_ready(other));
  const std::uint32_t cores = job_.cores_per_server[job_.server_index];
  for (std::uint32_t core = 0; core < cores && !state_.is_closed(); ++core) {
    const Status connected = connect_core(other, core);
    if (!connected.ok()) return reason_of(other, connected);
    PHUB_RETURN_IF_ERROR(look());
  }
  return {};
}

Status Uplink::choose_way(Other& other) const {
  const client::VerbsReach reach = [this](const client::RdmaPort& peer, std::uint32_t core) {
    return parts_.data_plane.reaches(peer, core);
  };
  const std::uint32_t own_cores = job_.cores_per_server[job_.server_index];
  PHUB_RETURN_IF_ERROR(
      check_transport(options_.transport, goes_on_, own_cores, other.joined.cores));
  const bool needs_tcp = goes_on_ || own_cores != other.joined.cores;
  auto way = client::choose_transport(needs_tcp ? "tcp" : options_.transport, other.joined, reach);
  if (!way) return way.error().with_context("rack_transport");
  if (parts_.data_plane.encrypts_tcp() && !client::check_encryption(*way, other.joined).ok()) {
    return {Code::kFailedPrecondition,
            fmt::format("this server encrypts its data (security.encrypt_data), and {} there is "
                        "not; set it in all racks",
                        way->transport)};
  }
  spdlog::info("event=rack_transport job={} id={} rack={} transport={} reason={}",
               log_value(job_.spec->name), job_.job_id, log_value(other.name), way->transport,
               log_value(way->reason));
  other.way = std::move(*way);
  return {};
}

// Once: a connection that is given up here may have been made there.
Status Uplink::connect_core(const Other& other, std::uint32_t core) {
  const milliseconds timeout = std::min(kConnectTimeout, options_.heartbeat_deadline * 3 / 5);
  return parts_.data_plane.connect_rack({.job_id = job_.job_id,
                                         .rack = other.rack,
                                         .core = core,
                                         .joined = &other.joined,
                                         .transport = other.way.transport,
                                         .timeout = timeout});
}

// Asks again and again, which takes the place of the call before, rather than wait in one call.
Status Uplink::make_ready(Other& other) {
  const std::vector<std::uint32_t>& cores = job_.cores_per_server;
  const std::size_t all = std::accumulate(cores.begin(), cores.end(), std::size_t{0});
  auto end = Clock::now() + kReadyTimeout;
  std::string delay;
  while (!state_.is_closed()) {
    const Status ready = other.server->ready(cores, std::vector<std::uint64_t>(all),
                                             job_.server_index, job_.racks_hash, call_timeout());
    if (ready.ok()) {
      const Status same = compare_rounds(job_, other.server->before().rounds);
      return same.ok() ? same : named(other, same);
    }
    // kAborted also where an earlier call came behind this one, and took its place.
    const bool is_late = ready.code() == Code::kDeadlineExceeded ||
                         ready.code() == Code::kUnavailable ||
                         (ready.code() == Code::kAborted && still_runs(other));
    const bool is_early = ready.code() == Code::kUnavailable;  // its workers are to come
    if (!is_late || (!is_early && Clock::now() > end)) return reason_of(other, ready);
    PHUB_RETURN_IF_ERROR(look());
    if (!is_early) continue;
    end = Clock::now() + kReadyTimeout;
    const Status why = named(other, ready);
    if (std::exchange(delay, why.message()) != why.message()) {
      parts_.events.on_delayed(job_.job_id, printable(why.message(), kReasonCharsMax));
    }
    state_.wait_for(kJoinPause);
  }
  return {};
}

Status Uplink::named(const Other& other, const Status& status) {
  return status.with_context(
      fmt::format("rack {} ({})", other.name, other.address.empty() ? "unknown" : other.address));
}

// Where the job has failed there meanwhile, the reason for that is the one to tell.
Status Uplink::reason_of(const Other& other, const Status& failure) {
  const auto beat = other.server->heartbeat(call_timeout());
  return beat && !beat->running ? over_there(other.name, beat->reason) : named(other, failure);
}

bool Uplink::still_runs(const Other& other) const {
  const auto beat = other.server->heartbeat(call_timeout());
  return beat && beat->running;
}

milliseconds Uplink::call_timeout() const {
  return std::clamp(options_.heartbeat_deadline / 3, milliseconds(50), kCallTimeout);
}

Status Uplink::look() {
  PHUB_ASSIGN_OR_RETURN(const UplinkState::Asked asked, state_.take());
  for (Other& other : others_) {
    if (asked.tells_complete && other.pulse) other.pulse->tell_complete();
    if (other.name == asked.suspected) {
      PHUB_RETURN_IF_ERROR(find_reason(other, asked.suspicion));
    }
  }
  return {};
}

// A connection can close a moment before its server knows why; not for long, as the workers wait.
// One that is not joined yet says why when it leaves, which closes the job.
Status Uplink::find_reason(Other& other, const std::string& suspicion) {
  const auto deadline = Clock::now() + call_timeout();
  while (Clock::now() < deadline && !state_.is_closed()) {
    PHUB_RETURN_IF_ERROR(state_.failure());
    if (!other.pulse) {
      std::this_thread::sleep_for(kDiagnosisPause);
      continue;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    const auto beat = other.server->heartbeat(std::max(left, milliseconds(1)));
    if (beat && !beat->running) return over_there(other.name, beat->reason);
    if (!beat && beat.error().code() == Code::kUnavailable) {
      return {Code::kUnavailable, fmt::format("rack {} ({}) is gone: {}, and it does not reply",
                                              other.name, other.address, suspicion)};
    }
    std::this_thread::sleep_for(kDiagnosisPause);
  }
  if (state_.is_closed()) return {};
  return {Code::kUnavailable,
          fmt::format("rack {} ({}) was lost: {}", other.name, other.address, suspicion)};
}

void Uplink::leave() {
  const std::string reason = state_.begin_leave();
  // All at once: one that is gone takes all of its time.
  std::vector<client::Later<Status>> asked;
  for (Other& other : others_) {
    if (!other.pulse) continue;
    other.pulse.reset();
    asked.push_back(other.server->begin_leave(kLeaveTimeout, reason));
  }
  for (const auto& left : asked) static_cast<void>(left());
  asked.clear();
  for (Other& other : others_) {
    other.server.reset();  // its connection: this object may stay for a while
  }
}

}  // namespace phub::server
