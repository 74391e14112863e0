#include "server/rpc/rendezvous.h"

#include <chrono>
#include <memory>

#include "common/rendezvous/peer_host.h"
#include "common/rpc/credentials_folder.h"
#include "common/rpc/status.h"
#include "server/rpc/messages/messages.h"
#include "server/rpc/take.h"

namespace phub::server {
namespace {

constexpr std::size_t kReasonCharsMax = 1024;
constexpr std::size_t kPeerHostCharsMax = 255;
constexpr std::uint32_t kStartTimeoutMsMax = 24 * 3600 * 1000;

// A call that is over at once.
grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext& context, const Status& status) {
  auto* const reactor = context.DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

void fill(const SampleLedger& samples, control::ReadyReply& reply) {
  if (!samples.is_known()) return;
  control::SampleLedger& message = *reply.mutable_samples();
  message.set_samples(samples.samples);
  message.set_seed(samples.seed);
  message.set_round(samples.round);
  message.set_used(samples.used);
}

void fill(const PeersView& view, control::StartReply& reply) {
  if (view.peers.empty()) return;
  reply.set_peer_key(view.key.data(), view.key.size());
  for (const PeerView& peer : view.peers) {
    control::PeerPlace& place = *reply.add_peers();
    place.set_worker_index(peer.worker);
    place.set_host(peer.host);
    place.set_port(peer.port);
  }
}

}  // namespace

// A start that waits: answered by the table, or given up when its caller goes away.
class RendezvousService::WaitingStart final : public grpc::ServerUnaryReactor {
 public:
  WaitingStart(JobTable& table, const Identity& identity) : table_(table), identity_(identity) {}

  // `reply` lives until the call is done.
  void begin(std::chrono::milliseconds timeout, control::StartReply& reply) {
    number_ = table_.starts.start(identity_, timeout, [this, &reply](const Status& status) {
      if (status.ok()) {
        reply.set_rounds_before(table_.views.rounds_before(identity_.job_id));
        fill(table_.views.peers_of(identity_), reply);
      }
      Finish(to_grpc(status));
    });
  }

  // gRPC calls it after begin has returned.
  void OnCancel() override {
    if (number_ != 0) table_.life.stop_waiting(identity_, number_);
  }
  void OnDone() override { delete this; }

 private:
  JobTable& table_;
  const Identity identity_;
  std::uint64_t number_ = 0;
};

Status RendezvousService::note_peer(const grpc::ServerContextBase& context,
                                    const Identity& identity,
                                    const control::ReadyRequest& request) {
  if (request.peer_port() == 0) return {};
  if (request.peer_port() > UINT16_MAX) {
    return {Code::kInvalidArgument, "peer_port: " + std::to_string(request.peer_port()) +
                                        ", allowed are at most " + std::to_string(UINT16_MAX)};
  }
  std::string host = request.peer_host();
  if (host.size() > kPeerHostCharsMax || printable(host, kPeerHostCharsMax) != host) {
    return {Code::kInvalidArgument, "peer_host: must be a host name of at most " +
                                        std::to_string(kPeerHostCharsMax) + " characters"};
  }
  if (host.empty()) {
    const auto peer = peers_.find(context.peer());
    host = peer ? client::host_of_peer(peer->address).value_or("") : "";
  }
  // What only this host reaches is told as this host, which others reach as they reach this server.
  if (is_loopback(host)) host.clear();
  return table_.note_peer(identity, host, static_cast<std::uint16_t>(request.peer_port()));
}

grpc::ServerUnaryReactor* RendezvousService::Ready(grpc::CallbackServerContext* context,
                                                   const control::ReadyRequest* request,
                                                   control::ReadyReply* reply) {
  auto* const reactor = context->DefaultReactor();
  const auto post = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(*request));
    PHUB_ASSIGN_OR_RETURN(const std::string tenant, table_.views.tenant_of(identity));
    PHUB_RETURN_IF_ERROR(note_peer(*context, identity, *request));
    reactor->StartSendInitialMetadata();  // as of a start
    return threads_.work.post(tenant, [this, identity, context, request, reply, reactor] {
      // Executed now it would take the place of a later one.
      if (context->IsCancelled()) {
        return reactor->Finish({grpc::StatusCode::CANCELLED, "the call was given up"});
      }
      const auto& cores = request->cores_per_server();
      const auto& loads = request->core_load_bytes();
      table_.placement.ready(identity,
                             {.cores_per_server = {cores.begin(), cores.end()},
                              .server_index = request->server_index(),
                              .core_load_bytes = {loads.begin(), loads.end()}},
                             request->plan_hash(),
                             [this, id = identity.job_id, reply, reactor](const Status& status) {
                               if (status.ok()) {
                                 reply->set_rounds_before(table_.views.rounds_before(id));
                                 fill(table_.views.samples_before(id), *reply);
                               }
                               reactor->Finish(to_grpc(status));
                             });
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
    PHUB_RETURN_IF_ERROR(table_.members.note_transport(
        identity, printable(request->transport_reason(), kReasonCharsMax)));
    reactor = new WaitingStart(table_, identity);  // deletes itself when the call is done
    reactor->StartSendInitialMetadata();  // it may wait for long: who is admitted is known at once
    reactor->begin(std::chrono::milliseconds(request->timeout_ms()), *reply);
    return {};
  };
  const Status begun = begin();
  return reactor != nullptr ? reactor : finished(*context, begun);
}

Status RendezvousService::heartbeat(const control::HeartbeatRequest& request,
                                    control::HeartbeatReply& reply) {
  PHUB_ASSIGN_OR_RETURN(const Identity identity, identity_from(request));
  std::optional<StepWaits> steps;
  if (request.has_step_waits()) {
    PHUB_ASSIGN_OR_RETURN(steps, step_waits_from(request.step_waits()));
  }
  PHUB_ASSIGN_OR_RETURN(
      const HeartbeatReply beat,
      table_.members.heartbeat(identity, request.rack_is_complete(),
                               {.wanted = printable(request.end_wanted(), kReasonCharsMax),
                                .last_step = request.last_step(),
                                .known_last_step = request.known_last_step()},
                               steps));
  reply.set_running(beat.is_live);
  reply.set_reason(beat.reason);
  reply.mutable_workers_left()->Add(beat.workers_left.begin(), beat.workers_left.end());
  reply.mutable_workers_lost()->Add(beat.workers_lost.begin(), beat.workers_lost.end());
  reply.set_ending(beat.ending);
  reply.set_last_step(beat.last_step);
  reply.set_all_know(beat.all_know);
  return {};
}

grpc::ServerUnaryReactor* RendezvousService::Heartbeat(grpc::CallbackServerContext* context,
                                                       const control::HeartbeatRequest* request,
                                                       control::HeartbeatReply* reply) {
  return finished(*context, heartbeat(*request, *reply));
}

grpc::ServerUnaryReactor* RendezvousService::Leave(grpc::CallbackServerContext* context,
                                                   const control::LeaveRequest* request,
                                                   control::LeaveReply* /*reply*/) {
  const Result<Identity> identity = identity_from(*request);
  const std::string reason = printable(request->reason(), kReasonCharsMax);
  return finished(*context, identity ? table_.members.leave(*identity, reason) : identity.error());
}

grpc::ServerUnaryReactor* RendezvousService::Samples(grpc::CallbackServerContext* context,
                                                     const control::SamplesRequest* request,
                                                     control::SamplesReply* /*reply*/) {
  const Result<Identity> identity = identity_from(*request);
  if (!identity) return finished(*context, identity.error());
  const control::SampleLedger& said = request->ledger();
  return finished(*context, table_.note_samples(*identity, {.samples = said.samples(),
                                                            .seed = said.seed(),
                                                            .round = said.round(),
                                                            .used = said.used(),
                                                            .per_round = said.per_round()}));
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
  const Result<HeartbeatReply> beat = table_.members.heartbeat(identity);
  if (!beat) return beat.error();
  return table_.views.inspect("", identity.job_id);
}

// Errors: there are too many.
Status RendezvousService::snapshot(const grpc::CallbackServerContext& context, const JobView& job,
                                   const control::SnapshotRequest& request,
                                   control::TakeReply& reply, grpc::ServerUnaryReactor& reactor) {
  const auto find = [job]() -> Result<JobView> {
    if (job.state == JobState::kWaiting || job.state == JobState::kRunning) return job;
    return Status(Code::kFailedPrecondition,
                  "the job has ended" + (job.reason.empty() ? "" : ": " + job.reason));
  };
  const auto end = [this, &reactor, tenant = job.tenant,
                    object = to_string(name_of(job))](const Status& outcome) {
    if (!outcome.ok() && !audits_refusal()) return reactor.Finish(to_grpc(outcome));
    // One principal for all workers of a tenant: they share its part of the log.
    const Principal member{.role = Role::kWorker, .tenant = {}, .name = "a worker of " + tenant};
    reactor.Finish(authorizer_.audited(member, "snapshot take", object, outcome));
  };
  // Another rack's server asks for a worker of its own.
  const bool is_rack = request.worker_index() >= job.rack.workers;
  const WantedSnapshot wanted{.round = request.round(),
                              .timeout_ms = request.timeout_ms(),
                              .asked_by = Asker::kWorker,
                              .call = &context,
                              .links = is_rack ? nullptr : table_.links()};
  return post(threads_, job.tenant,
              std::make_shared<SnapshotCall>(table_, snapshotter_, wanted, reply, find, end));
}

grpc::ServerUnaryReactor* RendezvousService::Snapshot(grpc::CallbackServerContext* context,
                                                      const control::SnapshotRequest* request,
                                                      control::TakeReply* reply) {
  const Result<JobView> job = job_of(*request);
  auto* const reactor = context->DefaultReactor();
  Status posted;
  if (job) {
    reactor->StartSendInitialMetadata();  // as of a start
    posted = snapshot(*context, *job, *request, *reply, *reactor);
  } else {
    posted = threads_.door.post(kNobodyYet, [this, context, reactor, error = job.error()] {
      authorizer_.count_refusal(context, "worker's secret, for a snapshot");
      reactor->Finish(to_grpc(error));
    });
  }
  if (!posted.ok()) {
    ask_to_try_again(*context);
    reactor->Finish(to_grpc(posted));
  }
  return reactor;
}

}  // namespace phub::server
