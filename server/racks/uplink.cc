#include "server/racks/uplink.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/log_value.h"
#include "common/connect/data_connection.h"
#include "server/tenants/tenant.h"

namespace phub::server {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// One try to reach a server that may not be there yet, and the pause before the next.
constexpr milliseconds kJoinTimeout{2000};
constexpr milliseconds kJoinPause{200};
constexpr milliseconds kReadyTimeout{30'000};  // its memory may have to be made
constexpr milliseconds kConnectTimeout{5000};
constexpr milliseconds kLeaveTimeout{1000};
constexpr milliseconds kDiagnosis{2000};
constexpr milliseconds kDiagnosisPause{20};

bool may_pass(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

}  // namespace

Uplink::Uplink(LinkedRack job, UplinkOptions options, const UplinkParts& parts)
    : job_(std::move(job)), options_(std::move(options)), parts_(parts) {
  for (std::uint32_t rack = 0; rack < job_.spec->racks.size(); ++rack) {
    if (rack != job_.own) others_.push_back({.rack = rack, .name = job_.spec->racks[rack].name});
  }
  thread_ = std::thread([this] { run(); });
}

Uplink::~Uplink() {
  close("the server stopped");
  thread_.join();
}

void Uplink::complete() {
  const std::lock_guard lock(mutex_);
  complete_ = true;
  changed_.notify_all();
}

void Uplink::diagnose(const std::string& rack, const std::string& suspicion) {
  const std::lock_guard lock(mutex_);
  if (!suspected_.empty()) return;
  suspected_ = rack;
  suspicion_ = suspicion;
  changed_.notify_all();
}

void Uplink::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  reason_ = reason;
  changed_.notify_all();
}

bool Uplink::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

bool Uplink::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool Uplink::wait(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time,
                    [this] { return closed_ || complete_ != told_ || !suspected_.empty(); });
  return closed_;
}

void Uplink::run() {
  Status status = link();
  if (status.ok() && !is_closed()) {
    spdlog::info("event=racks_linked job={} id={} racks={}", log_value(job_.spec->name),
                 job_.job_id, others_.size());
    parts_.events.on_linked(job_.job_id);
    status = beat_until_closed();
  }
  if (!status.ok()) {
    parts_.events.on_unlinked(job_.job_id, status.message());  // which closes it, with this reason
  }
  leave();
  const std::lock_guard lock(mutex_);
  over_ = true;
}

// All are joined before any is connected: each makes the job's memory before it takes connections.
Status Uplink::link() {
  for (Other& other : others_) PHUB_RETURN_IF_ERROR(join(other));
  for (Other& other : others_) {
    const Status connected = is_closed() ? Status() : connect(other);
    if (!connected.ok()) {
      return connected.with_context(fmt::format("rack {} ({})", other.name, other.address));
    }
  }
  return {};
}

// Until it is there, the job is closed, or it says no.
Status Uplink::join(Other& other) {
  std::string delay;
  while (!is_closed()) {
    const Status joined = join_once(other);
    if (joined.ok()) return joined;
    const Status named = joined.with_context(
        fmt::format("rack {} ({})", other.name, other.address.empty() ? "unknown" : other.address));
    if (!may_pass(joined)) return named;
    if (std::exchange(delay, named.message()) != named.message()) {
      parts_.events.on_delayed(job_.job_id, named.message());
    }
    wait(kJoinPause);
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
  // From an etcd they may come one by one.
  if (found->servers.size() <= job_.server_index) {
    return {Code::kUnavailable, fmt::format("{} of its servers are known, this rack has {} in the "
                                            "job: racks have as many",
                                            found->servers.size(), job_.cores_per_server.size())};
  }
  other.address = found->servers[job_.server_index];
  ClientSecurity security = options_.security;
  if (job_.tenant != kDefaultTenant) security.tenant = job_.tenant;
  PHUB_ASSIGN_OR_RETURN(auto server, client::Rendezvous::create(other.address, security));
  PHUB_ASSIGN_OR_RETURN(
      other.joined,
      server->join_as_rack(*job_.spec, job_.spec->racks[job_.own].name, kJoinTimeout));
  other.server = std::move(server);
  return {};
}

Status Uplink::connect(Other& other) {
  const std::vector<std::uint32_t>& cores = job_.cores_per_server;
  const std::size_t all = std::accumulate(cores.begin(), cores.end(), std::size_t{0});
  if (other.joined.tcp_port == 0) {
    return {Code::kFailedPrecondition, "it offers no tcp, by which racks are joined"};
  }
  PHUB_RETURN_IF_ERROR(other.server->ready(cores, std::vector<std::uint64_t>(all),
                                           job_.server_index, job_.plan_hash, kReadyTimeout));
  for (std::uint32_t core = 0; core < cores[job_.server_index]; ++core) {
    PHUB_ASSIGN_OR_RETURN(auto stream,
                          client::open_tcp({.joined = &other.joined,
                                            .core = core,
                                            .timeout = kConnectTimeout,
                                            .congestion_control = options_.congestion_control}));
    PHUB_RETURN_IF_ERROR(parts_.data_plane.connect_rack(job_.job_id, other.rack, other.joined.epoch,
                                                        core, std::move(stream)));
  }
  return {};
}

Status Uplink::beat_until_closed() {
  milliseconds interval{1000};
  for (const Other& other : others_) interval = std::min(interval, other.joined.heartbeat_interval);
  std::vector<Clock::time_point> answered(others_.size(), Clock::now());
  do {
    bool is_complete = false;
    std::string suspected;
    std::string suspicion;
    {
      const std::lock_guard lock(mutex_);
      is_complete = told_ = complete_;
      suspected = std::exchange(suspected_, {});
      suspicion = suspicion_;
    }
    for (std::size_t i = 0; i < others_.size() && !is_closed(); ++i) {
      Other& other = others_[i];
      if (other.name == suspected) PHUB_RETURN_IF_ERROR(find_reason(other, suspicion));
      const auto beat = other.server->heartbeat(interval, is_complete);
      if (beat && !beat->running) return over_there(other, beat->reason);
      if (beat) answered[i] = Clock::now();
      if (Clock::now() - answered[i] > options_.heartbeat_deadline) {
        return {Code::kUnavailable,
                fmt::format("rack {} ({}) was lost: no reply for {} ms", other.name, other.address,
                            options_.heartbeat_deadline.count())};
      }
    }
  } while (!wait(interval));
  return {};
}

Status Uplink::over_there(const Other& other, const std::string& reason) {
  const std::string why = reason.empty() ? "the job has ended there" : reason;
  return {Code::kAborted, fmt::format("rack {}: {}", other.name, why)};
}

// A connection can close a moment before its server knows why.
Status Uplink::find_reason(Other& other, const std::string& suspicion) {
  const auto deadline = Clock::now() + kDiagnosis;
  while (Clock::now() < deadline && !is_closed()) {
    const auto beat = other.server->heartbeat(kDiagnosis);
    if (beat && !beat->running) return over_there(other, beat->reason);
    if (!beat && beat.error().code() == Code::kUnavailable) {
      return {Code::kUnavailable, fmt::format("rack {} ({}) is gone: {}, and it does not reply",
                                              other.name, other.address, suspicion)};
    }
    std::this_thread::sleep_for(kDiagnosisPause);
  }
  return {Code::kUnavailable,
          fmt::format("rack {} ({}) was lost: {}", other.name, other.address, suspicion)};
}

void Uplink::leave() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = reason_;
  }
  for (const Other& other : others_) {
    if (other.server) static_cast<void>(other.server->leave(kLeaveTimeout, reason));
  }
}

}  // namespace phub::server
