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

}  // namespace

Status RendezvousService::admit(const grpc::ServerContext* context,
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

Status RendezvousService::join(const grpc::ServerContext* context,
                               const control::JoinRequest& request, control::JoinReply& reply) {
  JoinArguments arguments;
  PHUB_RETURN_IF_ERROR(admit(context, request, arguments));
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
  const std::vector<std::uint64_t> load = table_.core_load_bytes(identity.job_id);
  reply.mutable_core_load_bytes()->Add(load.begin(), load.end());
  return {};
}

Status RendezvousService::ready(const control::ReadyRequest& request) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  const Topology topology{
      .cores_per_server = {request.cores_per_server().begin(), request.cores_per_server().end()},
      .server_index = request.server_index(),
      .core_load_bytes = {request.core_load_bytes().begin(), request.core_load_bytes().end()}};
  return table_.ready(identity, topology, request.plan_hash());
}

Status RendezvousService::start(grpc::ServerContext& context, const control::StartRequest& request,
                                control::StartReply& reply) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  if (request.timeout_ms() == 0 || request.timeout_ms() > kStartTimeoutMsMax) {
    return {Code::kInvalidArgument,
            "timeout_ms: allowed are 1 to " + std::to_string(kStartTimeoutMsMax) + " (a day)"};
  }
  PHUB_RETURN_IF_ERROR(
      table_.note_transport(identity, printable(request.transport_reason(), kReasonCharsMax)));
  PHUB_RETURN_IF_ERROR(table_.start(identity, std::chrono::milliseconds(request.timeout_ms()),
                                    [&context] { return context.IsCancelled(); }));
  reply.set_rounds_before(table_.rounds_before(identity.job_id));
  return {};
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

Result<JobView> RendezvousService::job_of(const control::SnapshotRequest& request) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  const Result<server::Heartbeat> beat = table_.heartbeat(identity);
  if (!beat) return beat.error();
  return table_.inspect("", identity.job_id);
}

Status RendezvousService::snapshot(const grpc::ServerContext& context, const JobView& job,
                                   const control::SnapshotRequest& request,
                                   control::TakeReply& reply) {
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

grpc::Status RendezvousService::Join(grpc::ServerContext* context,
                                     const control::JoinRequest* request,
                                     control::JoinReply* reply) {
  return to_grpc(join(context, *request, *reply));
}

grpc::Status RendezvousService::Ready(grpc::ServerContext* /*context*/,
                                      const control::ReadyRequest* request,
                                      control::ReadyReply* /*reply*/) {
  return to_grpc(ready(*request));
}

grpc::Status RendezvousService::Start(grpc::ServerContext* context,
                                      const control::StartRequest* request,
                                      control::StartReply* reply) {
  return to_grpc(start(*context, *request, *reply));
}

grpc::Status RendezvousService::Heartbeat(grpc::ServerContext* /*context*/,
                                          const control::HeartbeatRequest* request,
                                          control::HeartbeatReply* reply) {
  return to_grpc(heartbeat(*request, *reply));
}

grpc::Status RendezvousService::Leave(grpc::ServerContext* /*context*/,
                                      const control::LeaveRequest* request,
                                      control::LeaveReply* /*reply*/) {
  return to_grpc(leave(*request));
}

bool RendezvousService::audits_refusal() {
  const std::lock_guard lock(refusals_mutex_);
  const auto now = TokenBucket::Clock::now();
  if (refusals_.wait(now) > TokenBucket::Clock::duration::zero()) return false;
  refusals_.take(now);
  return true;
}

grpc::Status RendezvousService::Snapshot(grpc::ServerContext* context,
                                         const control::SnapshotRequest* request,
                                         control::TakeReply* reply) {
  const Result<JobView> job = job_of(*request);
  if (!job) {
    gate_.count_refusal(context, "worker's secret, for a snapshot");
    return to_grpc(job.error());
  }
  const Principal member{.role = Role::kWorker,
                         .tenant = {},
                         .name = "worker " + std::to_string(request->worker_index())};
  const Status outcome = snapshot(*context, *job, *request, *reply);
  if (!outcome.ok() && !audits_refusal()) return to_grpc(outcome);
  return gate_.audited(member, "snapshot take", to_string(name_of(*job)), outcome);
}

}  // namespace phub::server
