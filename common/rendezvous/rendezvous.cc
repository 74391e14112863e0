#include "common/rendezvous/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/first_line.h"
#include "common/job/message.h"
#include "common/rendezvous/peer_host.h"
#include "common/rendezvous/peer_places.h"
#include "common/rendezvous/pending_call.h"
#include "common/rendezvous/server_calls.h"
#include "common/transport/verbs/device/device.h"
#include "proto/control.pb.h"

namespace phub::client {

using std::chrono::milliseconds;

namespace {

// The server replies to a start that timed out itself, with names; only then the call's deadline.
constexpr milliseconds kStartReplyMargin{2000};
constexpr std::int64_t kStartTimeoutMsMax = 3'600'000;
// Of keys in a request: far below what it may have, so counting them roughly does.
constexpr std::size_t kPartBytes = 32 * 1024;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "unknown";
}

// A call with its messages.
template <typename Request, typename Reply>
struct Asked {
  explicit Asked(Request asked) : request(std::move(asked)) {}

  Request request;
  Reply reply;
  std::optional<PendingCall> call;  // last: it uses both
};

template <typename Reply, typename Request>
auto ask(ServerCalls& calls, const char* method, Request request, milliseconds timeout,
         const std::stop_token& stop = {}, const char* service = kRendezvous) {
  const auto asked = std::make_shared<Asked<Request, Reply>>(std::move(request));
  const auto only = [raw = asked.get()](std::size_t number) {
    return number == 0 ? &raw->request : nullptr;
  };
  asked->call.emplace(calls, timeout, CallMessages{method, only, &asked->reply, service}, stop);
  return asked;
}

// A join's messages: keys go in parts that a server takes.
class AskedJoin {
 public:
  AskedJoin(control::JoinRequest head, const std::vector<KeySpec>& keys)
      : head_(std::move(head)), keys_(keys) {}

  void begin(ServerCalls& calls, milliseconds timeout, const std::stop_token& stop,
             bool tries_again) {
    const auto next = [this](std::size_t number) { return part(number); };
    call_.emplace(calls, timeout, CallMessages{"Join", next, &reply_, kRendezvous, tries_again},
                  stop);
  }
  Status wait() { return call_->wait(); }
  bool is_over() const { return call_->is_over(); }
  const control::JoinReply& reply() const { return reply_; }
  const std::string& peer() const { return call_->peer(); }

 private:
  const control::JoinRequest* part(std::size_t number) {
    if (number > 0 && sent_ >= keys_.size()) return nullptr;
    part_ = number == 0 ? head_ : control::JoinRequest();
    sent_ = add_keys(keys_, *part_.mutable_spec(), number == 0 ? 0 : sent_, kPartBytes);
    part_.set_more(sent_ < keys_.size());
    return &part_;
  }

  const control::JoinRequest head_;
  const std::vector<KeySpec>& keys_;
  control::JoinRequest part_;
  std::size_t sent_ = 0;  // keys
  control::JoinReply reply_;
  std::optional<PendingCall> call_;  // last: it uses all of the above
};

// Nothing where the message is malformed.
std::optional<RdmaPort> port_from(const control::RdmaPort& message) {
  using transport::verbs::GidType;
  using transport::verbs::LinkLayer;
  RdmaPort port{.device = message.device(),
                .link_layer = message.infiniband() ? LinkLayer::kInfiniBand : LinkLayer::kEthernet,
                .gid = {}};
  if (message.gid().size() != port.gid.bytes.size() ||
      message.gid_type() > static_cast<std::uint32_t>(GidType::kRoceV2)) {
    return std::nullopt;
  }
  std::copy(message.gid().begin(), message.gid().end(), port.gid.bytes.begin());
  port.gid.type = static_cast<GidType>(message.gid_type());
  return port;
}

// Another rack may be somebody else's: the data plane is where the reply came from, and on this
// host only where that is. So a rack cannot have this server connect to what only this host
// reaches.
void hold_to(const std::string& peer, JoinInfo& joined) {
  const auto host = host_of_peer(peer);
  joined.same_host = joined.same_host && host && is_own_address(*host);
  if (host) joined.host = *host;
}

Result<Beat> beat_of(const Status& status, const control::HeartbeatReply& reply) {
  // A server that was restarted knows neither the job nor the secret.
  if (status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied) {
    return Beat{.running = false, .reason = status.message(), .left = {}};
  }
  PHUB_RETURN_IF_ERROR(status);
  return Beat{.running = reply.running(),
              .reason = reply.reason(),
              .left = {reply.workers_left().begin(), reply.workers_left().end()},
              .lost = {reply.workers_lost().begin(), reply.workers_lost().end()}};
}

}  // namespace

Rendezvous::Rendezvous(std::unique_ptr<ServerCalls> calls, std::stop_token stop)
    : calls_(std::move(calls)), stop_(std::move(stop)) {}
Rendezvous::~Rendezvous() = default;

Result<std::unique_ptr<Rendezvous>> Rendezvous::create(const std::string& address,
                                                       const ClientSecurity& security,
                                                       std::size_t server, std::stop_token stop) {
  PHUB_ASSIGN_OR_RETURN(auto calls, ServerCalls::create(address, security, server));
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(calls), std::move(stop)));
}

const std::string& Rendezvous::address() const { return calls_->address(); }

template <typename Request>
Request Rendezvous::identified() const {
  Request request;
  request.set_job_id(joined_.job_id);
  request.set_epoch(joined_.epoch);
  request.set_worker_index(joined_.seat);
  request.set_secret(joined_.secret.data(), joined_.secret.size());
  return request;
}

Result<JoinInfo> Rendezvous::join(const JobSpec& job, milliseconds timeout, std::int32_t index,
                                  const JoinInfo* base) {
  return begin_join(job, timeout, index, base)();
}

Later<Result<JoinInfo>> Rendezvous::begin_join(const JobSpec& job, milliseconds timeout,
                                               std::int32_t index, const JoinInfo* base,
                                               JoinsWhen when) {
  control::JoinRequest request;
  if (base != nullptr) {
    control::Membership& member = *request.mutable_base();
    member.set_job_id(base->job_id);
    member.set_epoch(base->epoch);
    member.set_worker_index(base->seat);
    member.set_secret(base->secret.data(), base->secret.size());
  }
  request.set_worker_index(index);
  request.set_after_first(when.after_first);
  return begin_join(job, request, timeout, when.waits);
}

Result<JoinInfo> Rendezvous::join_as_rack(const JobSpec& job, const JoiningRack& rack,
                                          milliseconds timeout) {
  control::JoinRequest request;
  request.set_worker_index(-1);
  request.set_rack(rack.name);
  request.set_host(rack.address);
  request.set_tenant_shared_id(rack.tenant_shared_id);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  request.set_attempt(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
  return begin_join(job, request, timeout)();
}

Later<Result<JoinInfo>> Rendezvous::begin_join(const JobSpec& job,
                                               const control::JoinRequest& caller,
                                               milliseconds timeout, bool tries_again) {
  control::JoinRequest request = caller;
  fill(job, *request.mutable_spec());
  if (request.host().empty()) request.set_host(host_name());
  request.set_process_id(static_cast<std::uint32_t>(getpid()));
  request.set_tenant(calls_->tenant());
  const bool is_rack = !request.rack().empty();
  const std::uint32_t workers_max = is_rack ? UINT32_MAX : job.workers;
  const auto asked = std::make_shared<AskedJoin>(std::move(request), job.keys);
  asked->begin(*calls_, timeout, stop_, tries_again);
  const auto wait = [this, asked, is_rack, workers_max]() -> Result<JoinInfo> {
    PHUB_RETURN_IF_ERROR(asked->wait());
    PHUB_ASSIGN_OR_RETURN(joined_, read_join(asked->reply(), workers_max));
    if (is_rack) hold_to(asked->peer(), joined_);
    return joined_;
  };
  return {wait, [asked] { return asked->is_over(); }};
}

// `workers_max`: the worker's index is below.
Result<JoinInfo> Rendezvous::read_join(const control::JoinReply& reply,
                                       std::uint32_t workers_max) const {
  JoinInfo info{.job_id = reply.job_id(),
                .epoch = reply.epoch(),
                .worker_index = reply.worker_index(),
                .seat = reply.seat(),
                .secret = {},
                .cores = reply.cores(),
                .host = calls_->host(),
                .tcp_port = static_cast<std::uint16_t>(reply.tcp_port()),
                .shm_socket = reply.shm_socket(),
                .same_host = !reply.boot_id().empty() && reply.boot_id() == first_line(kBootId),
                .rdma = {},
                .encrypts_data = reply.encrypts_data(),
                .core_load_bytes = {reply.core_load_bytes().begin(), reply.core_load_bytes().end()},
                .heartbeat_interval = milliseconds(reply.heartbeat_interval_ms()),
                .no_snapshots = reply.no_snapshots()};
  if (reply.secret().size() != info.secret.size() || info.cores == 0 ||
      reply.tcp_port() > UINT16_MAX || info.worker_index >= workers_max ||
      info.heartbeat_interval.count() == 0 || info.core_load_bytes.size() != info.cores ||
      !(info.shm_socket.empty() || is_server_socket(info.shm_socket))) {
    return Status(Code::kInternal, address() + " sent a join reply that makes no sense");
  }
  std::copy(reply.secret().begin(), reply.secret().end(), info.secret.begin());
  for (const control::RdmaPort& message : reply.rdma()) {
    const auto port = port_from(message);
    if (!port || reply.rdma_size() != static_cast<int>(info.cores)) {
      return Status(Code::kInternal, address() + " sent RDMA ports that make no sense");
    }
    info.rdma.push_back(*port);
  }
  return info;
}

Status Rendezvous::ready(const std::vector<std::uint32_t>& cores_per_server,
                         const std::vector<std::uint64_t>& core_load_bytes,
                         std::uint32_t server_index, std::uint64_t plan_hash,
                         milliseconds timeout) {
  return begin_ready(cores_per_server, core_load_bytes, server_index, plan_hash, timeout)();
}

Later<Status> Rendezvous::begin_ready(const std::vector<std::uint32_t>& cores_per_server,
                                      const std::vector<std::uint64_t>& core_load_bytes,
                                      std::uint32_t server_index, std::uint64_t plan_hash,
                                      milliseconds timeout) {
  control::ReadyRequest request = identified<control::ReadyRequest>();
  request.mutable_cores_per_server()->Add(cores_per_server.begin(), cores_per_server.end());
  request.mutable_core_load_bytes()->Add(core_load_bytes.begin(), core_load_bytes.end());
  request.set_server_index(server_index);
  request.set_plan_hash(plan_hash);
  request.set_peer_port(listens_.port);
  request.set_peer_host(listens_.host);
  const auto asked = ask<control::ReadyReply>(*calls_, "Ready", std::move(request), timeout, stop_);
  const auto wait = [this, asked]() -> Status {
    PHUB_RETURN_IF_ERROR(asked->call->wait());
    before_.rounds = asked->reply.rounds_before();
    const control::SampleLedger& samples = asked->reply.samples();
    before_.samples = {.samples = samples.samples(),
                       .seed = samples.seed(),
                       .round = samples.round(),
                       .used = samples.used()};
    return before_.samples.is_known() ? check(before_.samples) : Status();
  };
  return {wait, [asked] { return asked->call->is_over(); }};
}

Later<Status> Rendezvous::begin_note_samples(const SampleLedger& ledger, milliseconds timeout) {
  auto request = identified<control::SamplesRequest>();
  control::SampleLedger& message = *request.mutable_ledger();
  message.set_samples(ledger.samples);
  message.set_seed(ledger.seed);
  message.set_round(ledger.round);
  message.set_used(ledger.used);
  message.set_per_round(ledger.per_round);
  const auto asked =
      ask<control::SamplesReply>(*calls_, "Samples", std::move(request), timeout, stop_);
  return {[asked] { return asked->call->wait(); }, [asked] { return asked->call->is_over(); }};
}

Status Rendezvous::start(milliseconds timeout, const std::string& transport_reason) {
  return begin_start(timeout, transport_reason)();
}

Later<Status> Rendezvous::begin_start(milliseconds timeout, const std::string& transport_reason) {
  control::StartRequest request = identified<control::StartRequest>();
  // More than an hour is refused.
  request.set_timeout_ms(
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout.count(), 1, kStartTimeoutMsMax)));
  request.set_transport_reason(transport_reason);
  const auto asked = ask<control::StartReply>(*calls_, "Start", std::move(request),
                                              timeout + kStartReplyMargin, stop_);
  const auto wait = [this, asked]() -> Status {
    PHUB_RETURN_IF_ERROR(asked->call->wait());
    before_.rounds = asked->reply.rounds_before();
    if (listens_.port == 0) return {};
    PHUB_ASSIGN_OR_RETURN(peers_, read_peers(asked->reply, joined_, *calls_));
    return {};
  };
  return {wait, [asked] { return asked->call->is_over(); }};
}

control::HeartbeatRequest Rendezvous::heartbeat_request(bool rack_is_complete) const {
  auto request = identified<control::HeartbeatRequest>();
  request.set_rack_is_complete(rack_is_complete);
  const auto steps = steps_ == nullptr ? std::nullopt : steps_->sum();
  if (steps) fill(*steps, *request.mutable_step_waits());
  if (end_ == nullptr || !end_is_decided_here_) return request;
  const PlannedEnd::Said said = end_->said();
  request.set_end_wanted(said.wanted);
  request.set_last_step(said.last_step);
  request.set_known_last_step(said.known);
  return request;
}

void Rendezvous::hear(const Status& status, const control::HeartbeatReply& reply) const {
  if (end_ == nullptr || !status.ok()) return;
  end_->hear(
      {.reason = reply.ending(), .last_step = reply.last_step(), .all_know = reply.all_know()},
      end_is_decided_here_, address());
}

Result<Beat> Rendezvous::heartbeat(milliseconds timeout, bool rack_is_complete) {
  const auto asked = ask<control::HeartbeatReply>(*calls_, "Heartbeat",
                                                  heartbeat_request(rack_is_complete), timeout);
  const Status status = asked->call->wait();
  hear(status, asked->reply);
  return beat_of(status, asked->reply);
}

std::function<void()> Rendezvous::begin_heartbeat(milliseconds timeout, bool rack_is_complete,
                                                  std::function<void(const Result<Beat>&)> done) {
  struct Messages {
    control::HeartbeatRequest request;
    control::HeartbeatReply reply;
  };
  const auto messages = std::make_shared<Messages>();
  messages->request = heartbeat_request(rack_is_complete);
  const auto only = [raw = messages.get()](std::size_t number) {
    return number == 0 ? &raw->request : nullptr;
  };
  const auto tell = [this, messages, timeout, done = std::move(done)](const CallOutcome& outcome) {
    const Status status = calls_->outcome_of(outcome.status, timeout);
    hear(status, messages->reply);
    done(beat_of(status, messages->reply));
  };
  return calls_->begin({"Heartbeat", only, &messages->reply},
                       std::chrono::system_clock::now() + timeout, tell);
}

Result<Rendezvous::Files> Rendezvous::snapshot(std::uint64_t round, milliseconds timeout) {
  return begin_snapshot(round, timeout)();
}

Later<Result<Rendezvous::Files>> Rendezvous::begin_snapshot(std::uint64_t round,
                                                            milliseconds timeout) {
  control::SnapshotRequest request = identified<control::SnapshotRequest>();
  request.set_round(round);
  request.set_timeout_ms(static_cast<std::uint32_t>(std::max<std::int64_t>(1, timeout.count())));
  const auto asked = ask<control::TakeReply>(*calls_, "Snapshot", std::move(request),
                                             timeout + kStartReplyMargin, stop_);
  const auto wait = [this, asked]() -> Result<Files> {
    PHUB_RETURN_IF_ERROR(asked->call->wait());
    Files files{asked->reply.snapshot().file() + " at " + address()};
    for (const control::RackSnapshot& other : asked->reply.other_racks()) {
      files.push_back(other.file() + " at " + other.address());
    }
    return files;
  };
  return {wait, [asked] { return asked->call->is_over(); }};
}

Later<Status> Rendezvous::begin_delete_snapshot(const std::string& file, milliseconds timeout) {
  control::DeleteSnapshotRequest request;
  request.set_file(file);
  const auto asked = ask<control::DeleteSnapshotReply>(*calls_, "Delete", std::move(request),
                                                       timeout, stop_, kSnapshots);
  return {[asked] { return asked->call->wait(); }, [asked] { return asked->call->is_over(); }};
}

Status Rendezvous::leave(milliseconds timeout, const std::string& reason) {
  return begin_leave(timeout, reason)();
}

Later<Status> Rendezvous::begin_leave(milliseconds timeout, const std::string& reason) {
  auto request = identified<control::LeaveRequest>();
  request.set_reason(reason);
  const auto asked = ask<control::LeaveReply>(*calls_, "Leave", std::move(request), timeout);
  return {[asked] { return asked->call->wait(); }, [asked] { return asked->call->is_over(); }};
}

}  // namespace phub::client
