#include "common/rendezvous/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/first_line.h"
#include "common/protocol/job_message.h"
#include "common/rendezvous/server_calls.h"
#include "common/transport/verbs/device/device.h"

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

// In parts that a server takes. One that has refused takes no more, and its reply says why.
grpc::Status send_join(ServerCalls::Stub& stub, grpc::ClientContext& context,
                       const control::JoinRequest& head, const std::vector<KeySpec>& keys,
                       control::JoinReply& reply) {
  const auto parts = stub.Join(&context, &reply);
  control::JoinRequest part = head;
  std::size_t sent = 0;
  bool is_taken = true;
  do {
    sent = add_keys(keys, *part.mutable_spec(), sent, kPartBytes);
    part.set_more(sent < keys.size());
    is_taken = parts->Write(part);
    part.Clear();
  } while (is_taken && sent < keys.size());
  parts->WritesDone();
  return parts->Finish();
}

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

Result<Beat> beat_of(const Status& status, const control::HeartbeatReply& reply) {
  // A server that was restarted knows neither the job nor the secret.
  if (status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied) {
    return Beat{.running = false, .reason = status.message(), .left = {}};
  }
  PHUB_RETURN_IF_ERROR(status);
  return Beat{.running = reply.running(),
              .reason = reply.reason(),
              .left = {reply.workers_left().begin(), reply.workers_left().end()}};
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
  control::JoinRequest request;
  if (base != nullptr) {
    control::Membership& member = *request.mutable_base();
    member.set_job_id(base->job_id);
    member.set_epoch(base->epoch);
    member.set_worker_index(base->seat);
    member.set_secret(base->secret.data(), base->secret.size());
  }
  request.set_worker_index(index);
  return join(job, request, timeout);
}

Result<JoinInfo> Rendezvous::join_as_rack(const JobSpec& job, const std::string& rack,
                                          const std::string& own_address, milliseconds timeout) {
  control::JoinRequest request;
  request.set_worker_index(-1);
  request.set_rack(rack);
  request.set_host(own_address);
  return join(job, request, timeout);
}

Result<JoinInfo> Rendezvous::join(const JobSpec& job, const control::JoinRequest& caller,
                                  milliseconds timeout) {
  control::JoinRequest request = caller;
  fill(job, *request.mutable_spec());
  if (request.host().empty()) request.set_host(host_name());
  request.set_process_id(static_cast<std::uint32_t>(getpid()));
  request.set_tenant(calls_->tenant());
  control::JoinReply reply;
  const auto attempt = [&](grpc::ClientContext& context) {
    return send_join(calls_->stub(), context, request, job.keys, reply);
  };
  PHUB_RETURN_IF_ERROR(calls_->until(timeout, attempt, stop_));
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
                .heartbeat_interval = milliseconds(reply.heartbeat_interval_ms())};
  if (reply.secret().size() != info.secret.size() || info.cores == 0 ||
      reply.tcp_port() > UINT16_MAX ||
      (request.rack().empty() && info.worker_index >= job.workers) ||
      info.heartbeat_interval.count() == 0 || info.core_load_bytes.size() != info.cores) {
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
  joined_ = info;
  return info;
}

Status Rendezvous::ready(const std::vector<std::uint32_t>& cores_per_server,
                         const std::vector<std::uint64_t>& core_load_bytes,
                         std::uint32_t server_index, std::uint64_t plan_hash,
                         milliseconds timeout) {
  control::ReadyRequest request = identified<control::ReadyRequest>();
  request.mutable_cores_per_server()->Add(cores_per_server.begin(), cores_per_server.end());
  request.mutable_core_load_bytes()->Add(core_load_bytes.begin(), core_load_bytes.end());
  request.set_server_index(server_index);
  request.set_plan_hash(plan_hash);
  control::ReadyReply reply;
  PHUB_RETURN_IF_ERROR(
      calls_->call(&control::Rendezvous::Stub::Ready, request, reply, timeout, stop_));
  rounds_before_ = reply.rounds_before();
  return {};
}

Status Rendezvous::start(milliseconds timeout, const std::string& transport_reason) {
  control::StartRequest request = identified<control::StartRequest>();
  // More than an hour is refused.
  request.set_timeout_ms(
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout.count(), 1, kStartTimeoutMsMax)));
  request.set_transport_reason(transport_reason);
  control::StartReply reply;
  PHUB_RETURN_IF_ERROR(calls_->call(&control::Rendezvous::Stub::Start, request, reply,
                                    timeout + kStartReplyMargin, stop_));
  rounds_before_ = reply.rounds_before();
  return {};
}

Result<Beat> Rendezvous::heartbeat(milliseconds timeout, bool rack_is_complete) {
  control::HeartbeatReply reply;
  auto request = identified<control::HeartbeatRequest>();
  request.set_rack_is_complete(rack_is_complete);
  return beat_of(calls_->call(&control::Rendezvous::Stub::Heartbeat, request, reply, timeout),
                 reply);
}

std::function<void()> Rendezvous::begin_heartbeat(milliseconds timeout, bool rack_is_complete,
                                                  std::function<void(const Result<Beat>&)> done) {
  struct Call {
    grpc::ClientContext context;
    control::HeartbeatRequest request;
    control::HeartbeatReply reply;
  };
  auto call = std::make_shared<Call>();
  call->request = identified<control::HeartbeatRequest>();
  call->request.set_rack_is_complete(rack_is_complete);
  calls_->prepare(call->context, std::chrono::system_clock::now() + timeout);
  calls_->stub().async()->Heartbeat(
      &call->context, &call->request, &call->reply,
      [this, call, timeout, done = std::move(done)](const grpc::Status& status) mutable {
        const Result<Beat> beat = beat_of(calls_->outcome_of(status, timeout), call->reply);
        call.reset();  // its context holds the channel
        done(beat);
      });
  return [call = std::move(call)] { call->context.TryCancel(); };
}

Result<std::string> Rendezvous::snapshot(std::uint64_t round, milliseconds timeout) {
  control::SnapshotRequest request = identified<control::SnapshotRequest>();
  request.set_round(round);
  request.set_timeout_ms(static_cast<std::uint32_t>(std::max<std::int64_t>(1, timeout.count())));
  control::TakeReply reply;
  PHUB_RETURN_IF_ERROR(calls_->call(&control::Rendezvous::Stub::Snapshot, request, reply,
                                    timeout + kStartReplyMargin, stop_));
  return reply.snapshot().file();
}

Status Rendezvous::leave(milliseconds timeout, const std::string& reason) {
  control::LeaveReply reply;
  auto request = identified<control::LeaveRequest>();
  request.set_reason(reason);
  return calls_->call(&control::Rendezvous::Stub::Leave, request, reply, timeout);
}

}  // namespace phub::client
