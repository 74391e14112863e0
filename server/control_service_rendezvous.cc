#include "server/control_service_rendezvous.h"

#include <algorithm>
#include <chrono>

#include "common/rpc_status.h"
#include "server/control_service_messages.h"
#include "server/control_service_snapshots.h"

namespace phub::server {
namespace {

constexpr std::size_t kHostCharsMax = 256;
constexpr std::size_t kReasonCharsMax = 1024;
constexpr std::uint32_t kStartTimeoutMsMax = 24 * 3600 * 1000;

// A call that is over at once.
grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext& context, const Status& status) {
  auto* const reactor = context.DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

}  // namespace

// A start that waits: answered by the table, or given up when its caller goes away.
class RendezvousService::WaitingStart final : public grpc::ServerUnaryReactor {
 public:
  WaitingStart(JobTable& table, const Identity& identity) : table_(table), identity_(identity) {}

  // `reply` lives until the call is done.
  void begin(std::chrono::milliseconds timeout, control::StartReply& reply) {
    number_ = table_.start(identity_, timeout, [this, &reply](const Status& status) {
      if (status.ok()) reply.set_rounds_before(table_.rounds_before(identity_.job_id));
      Finish(to_grpc(status));
    });
  }

  // gRPC calls it after begin has returned.
  void OnCancel() override {
    if (number_ != 0) table_.stop_waiting(identity_, number_);
  }
  void OnDone() override { delete this; }

 private:
  JobTable& table_;
  const Identity identity_;
  std::uint64_t number_ = 0;
};

Status RendezvousService::admit(const grpc::ServerContextBase* context,
                                const control::JoinRequest& request, JoinArguments& arguments) {
  if (!request.nonce().empty()) {
    arguments.ticket = Ticket{.job_id = request.job_id(), .nonce_hash = digest_of(request.nonce())};
    return {};
  }
  PHUB_ASSIGN_OR_RETURN(const Principal caller, gate_.admit(context, Right::kJoin, "join"));
  if (caller.role == Role::kTenant && namespace_of(caller, request.tenant()) != caller.tenant) {
    return {Code::kPermissionDenied,
            "tenant: the token is that of tenant \"" + caller.tenant + "\"; leave tenant out"};
  }
  arguments.tenant = namespace_of(caller, request.tenant());
  return {};
}

Status RendezvousService::join(const grpc::ServerContextBase* context,
                               const control::JoinRequest& request, JoinArguments arguments,
                               control::JoinReply& reply) {
  const std::string& host = request.host();
  const bool is_printable =
      std::all_of(host.begin(), host.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (host.empty() || host.size() > kHostCharsMax || !is_printable) {
    return {Code::kInvalidArgument, "host: must be a host name of 1 to 256 characters"};
  }
  PHUB_ASSIGN_OR_RETURN(JobSpec spec, spec_from(request.spec()));
  arguments.spec = std::make_shared<const JobSpec>(std::move(spec));
  arguments.worker_index = request.worker_index();
  arguments.host = host;
  arguments.process_id = request.process_id();
  Result<Identity> joined = table_.join(arguments);
  if (!joined) {
    if (joined.error().code() == Code::kUnauthenticated) gate_.count_refusal(context, "job nonce");
    return joined.error();
  }
  const Identity& identity = *joined;
  reply.set_job_id(identity.job_id);
  reply.set_epoch(identity.epoch);
  reply.set_worker_index(identity.worker);
  reply.set_secret(identity.secret.data(), identity.secret.size());
  fill_offer(reply);
  const std::vector<std::uint64_t> load = table_.core_load_bytes(identity.job_id);
  reply.mutable_core_load_bytes()->Add(load.begin(), load.end());
  return {};
}

void RendezvousService::fill_offer(control::JoinReply& reply) const {
  reply.set_cores(offer_.cores);
  reply.set_tcp_port(offer_.tcp_port);
  reply.set_shm_socket(offer_.shm_socket);
  for (const CorePort& port : offer_.rdma) {
    control::RdmaPort& message = *reply.add_rdma();
    message.set_device(port.device);
    message.set_infiniband(port.link_layer == transport::verbs::LinkLayer::kInfiniBand);
    message.set_gid(port.gid.bytes.data(), port.gid.bytes.size());
    message.set_gid_type(static_cast<std::uint32_t>(port.gid.type));
  }
  reply.set_boot_id(offer_.boot_id);
  reply.set_heartbeat_interval_ms(offer_.heartbeat_interval_ms);
  reply.set_encrypts_data(offer_.encrypts_data);
}

grpc::ServerUnaryReactor* RendezvousService::Join(grpc::CallbackServerContext* context,
                                                  const control::JoinRequest* request,
                                                  control::JoinReply* reply) {
  auto* const reactor = context->DefaultReactor();
  JoinArguments arguments;
  Status admitted = admit(context, *request, arguments);
  if (admitted.ok()) {
    // Who shows a ticket is none of the tenants yet.
    const std::string owner = arguments.ticket ? "" : arguments.tenant;
    admitted = threads_.work.post(owner, [this, context, request, reply, reactor, arguments] {
      reactor->Finish(to_grpc(join(context, *request, arguments, *reply)));
    });
  }
  if (!admitted.ok()) reactor->Finish(to_grpc(admitted));
  return reactor;
}

void RendezvousService::ready(const Identity& identity, const control::ReadyRequest& request,
                              Answer answer) {
  const Topology topology{
      .cores_per_server = {request.cores_per_server().begin(), request.cores_per_server().end()},
      .server_index = request.server_index(),
      .core_load_bytes = {request.core_load_bytes().begin(), request.core_load_bytes().end()}};
  table_.ready(identity, topology, request.plan_hash(), std::move(answer));
}

grpc::ServerUnaryReactor* RendezvousService::Ready(grpc::CallbackServerContext* context,
                                                   const control::ReadyRequest* request,
                                                   control::ReadyReply* /*reply*/) {
  auto* const reactor = context->DefaultReactor();
  const auto post = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(*request));
    PHUB_ASSIGN_OR_RETURN(const std::string tenant, table_.tenant_of(identity));
    return threads_.work.post(tenant, [this, identity, request, reactor] {
      ready(identity, *request,
            [reactor](const Status& status) { reactor->Finish(to_grpc(status)); });
    });
  };
  const Status posted = post();
  if (!posted.ok()) reactor->Finish(to_grpc(posted));
  return reactor;
}

grpc::ServerUnaryReactor* RendezvousService::Start(grpc::CallbackServerContext* context,
                                                   const control::StartRequest* request,
                                                   control::StartReply* reply) {
  WaitingStart* reactor = nullptr;
  const auto begin = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(*request));
    if (request->timeout_ms() == 0 || request->timeout_ms() > kStartTimeoutMsMax) {
      return {Code::kInvalidArgument,
              "timeout_ms: allowed are 1 to " + std::to_string(kStartTimeoutMsMax) + " (a day)"};
    }
    PHUB_RETURN_IF_ERROR(
        table_.note_transport(identity, printable(request->transport_reason(), kReasonCharsMax)));
    reactor = new WaitingStart(table_, identity);  // deletes itself when the call is done
    reactor->begin(std::chrono::milliseconds(request->timeout_ms()), *reply);
    return {};
  };
  const Status begun = begin();
  return reactor != nullptr ? reactor : finished(*context, begun);
}

Status RendezvousService::heartbeat(const control::HeartbeatRequest& request,
                                    control::HeartbeatReply& reply) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  PHUB_ASSIGN_OR_RETURN(const server::Heartbeat beat, table_.heartbeat(identity));
  reply.set_running(beat.is_live);
  reply.set_reason(beat.reason);
  reply.mutable_workers_left()->Add(beat.workers_left.begin(), beat.workers_left.end());
  return {};
}

Status RendezvousService::leave(const control::LeaveRequest& request) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  return table_.leave(identity);
}

grpc::ServerUnaryReactor* RendezvousService::Heartbeat(grpc::CallbackServerContext* context,
                                                       const control::HeartbeatRequest* request,
                                                       control::HeartbeatReply* reply) {
  return finished(*context, heartbeat(*request, *reply));
}

grpc::ServerUnaryReactor* RendezvousService::Leave(grpc::CallbackServerContext* context,
                                                   const control::LeaveRequest* request,
                                                   control::LeaveReply* /*reply*/) {
  return finished(*context, leave(*request));
}

bool RendezvousService::audits_refusal() {
  const std::lock_guard lock(refusals_mutex_);
  const auto now = TokenBucket::Clock::now();
  if (refusals_.wait(now) > TokenBucket::Clock::duration::zero()) return false;
  refusals_.take(now);
  return true;
}

Result<JobView> RendezvousService::job_of(const control::SnapshotRequest& request) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  const Result<server::Heartbeat> beat = table_.heartbeat(identity);
  if (!beat) return beat.error();
  return table_.inspect("", identity.job_id);
}

Status RendezvousService::take(const grpc::ServerContextBase& context, const JobView& job,
                               const control::SnapshotRequest& request, control::TakeReply& reply) {
  if (job.state != JobState::kWaiting && job.state != JobState::kRunning) {
    return {Code::kFailedPrecondition,
            "the job has ended" + (job.reason.empty() ? "" : ": " + job.reason)};
  }
  return take_snapshot(table_, snapshotter_, job,
                       {.round = request.round(),
                        .timeout_ms = request.timeout_ms(),
                        .asked_by = Asker::kWorker,
                        .call = &context},
                       reply);
}

grpc::Status RendezvousService::snapshot(const grpc::ServerContextBase& context, const JobView& job,
                                         const control::SnapshotRequest& request,
                                         control::TakeReply& reply) {
  const Principal member{.role = Role::kWorker,
                         .tenant = {},
                         .name = "worker " + std::to_string(request.worker_index())};
  const Status outcome = take(context, job, request, reply);
  if (!outcome.ok() && !audits_refusal()) return to_grpc(outcome);
  return gate_.audited(member, "snapshot take", to_string(name_of(job)), outcome);
}

grpc::ServerUnaryReactor* RendezvousService::Snapshot(grpc::CallbackServerContext* context,
                                                      const control::SnapshotRequest* request,
                                                      control::TakeReply* reply) {
  const Result<JobView> job = job_of(*request);
  if (!job) {
    gate_.count_refusal(context, "worker's secret, for a snapshot");
    return finished(*context, job.error());
  }
  auto* const reactor = context->DefaultReactor();
  const Status posted =
      threads_.takes.post(job->tenant, [this, context, request, reply, reactor, job = *job] {
        reactor->Finish(snapshot(*context, job, *request, *reply));
      });
  if (!posted.ok()) reactor->Finish(to_grpc(posted));
  return reactor;
}

}  // namespace phub::server
