#include "server/control_service_snapshots.h"

#include <chrono>
#include <string_view>

#include "common/rpc_status.h"
#include "server/control_service_names.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kTimeoutMsDefault = 30'000;
constexpr std::uint32_t kTimeoutMsMax = 3'600'000;
constexpr std::string_view kTakeAction = "snapshot take";

Status no_folder() {
  return {Code::kFailedPrecondition,
          "this server keeps no state: start it with state_folder (--state FOLDER)"};
}

void fill(const SnapshotInfo& info, control::SnapshotInfo& message) {
  message.set_file(info.file);
  message.set_tenant(info.tenant);
  message.set_job(info.job);
  message.set_round(info.round);
  message.set_bytes(info.bytes);
  message.set_created(info.created);
  message.set_sha256(info.sha256);
}

}  // namespace

Status take_snapshot(JobTable& table, Snapshotter* snapshotter, const JobView& job,
                     const WantedSnapshot& wanted, control::TakeReply& reply) {
  if (snapshotter == nullptr) return no_folder();
  if (wanted.timeout_ms > kTimeoutMsMax) {
    return {Code::kInvalidArgument,
            "timeout_ms: at most " + std::to_string(kTimeoutMsMax) + " (an hour)"};
  }
  PHUB_ASSIGN_OR_RETURN(const AdmittedCopy admitted, table.admit_copy_of(job.id));
  const std::uint32_t timeout_ms = wanted.timeout_ms == 0 ? kTimeoutMsDefault : wanted.timeout_ms;
  const CopyMoment moment{
      .round = wanted.round,
      .timeout = std::chrono::milliseconds(timeout_ms),
      .is_cancelled = [call = wanted.call] { return call != nullptr && call->IsCancelled(); }};
  PHUB_ASSIGN_OR_RETURN(const TakenSnapshot taken,
                        snapshotter->take({.job_id = job.id,
                                           .label = to_string(name_of(job)),
                                           .spec = job.spec,
                                           .tenant = admitted.tenant,
                                           .plan = admitted.plan,
                                           .server_index = admitted.server_index,
                                           .moment = moment,
                                           .asked_by = wanted.asked_by}));
  fill(taken.info, *reply.mutable_snapshot());
  reply.set_pause_seconds(taken.pause_seconds);
  reply.set_seconds(taken.seconds);
  return {};
}

Status SnapshotService::take(const JobName& name, const WantedSnapshot& wanted,
                             control::TakeReply& reply) {
  if (snapshotter_ == nullptr) return no_folder();
  PHUB_ASSIGN_OR_RETURN(const JobView view, table_.inspect(name, 0));
  return take_snapshot(table_, snapshotter_, view, wanted, reply);
}

// Whose job it becomes: the folder's tenant, or, of a folder that is no tenant's, the snapshot's.
Result<std::string> SnapshotService::tenant_of(const SnapshotHead& head,
                                               std::optional<std::uint32_t> owner,
                                               const std::string& file) const {
  if (!owner) return head.tenant;
  if (tenancy_ == nullptr || *owner == 0) return std::string(kDefaultTenant);
  for (const Tenant& tenant : tenancy_->directory.list()) {
    if (tenant.id == *owner) return tenant.name;
  }
  return Status(Code::kNotFound, "the tenant of \"" + file +
                                     "\" was deleted; move the file to the folder of another");
}

Status SnapshotService::restore_for(const Principal& caller, const control::RestoreRequest& request,
                                    control::RestoreReply& reply) {
  if (snapshotter_ == nullptr) return no_folder();
  // Another tenant's is not there, as far as the caller can tell, damaged or not.
  const auto owner = SnapshotStore::tenant_id_of(request.file());
  if (!can_see(caller, owner)) return SnapshotStore::no_snapshot(request.file());
  const SnapshotStore& store = snapshotter_->store();
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, store.head(request.file()));
  PHUB_ASSIGN_OR_RETURN(const std::string tenant, tenant_of(head, owner, request.file()));
  const std::string was = head.spec.name;
  if (!request.name().empty()) head.spec.name = request.name();
  // What would be refused is refused before its data is read, which may be all of a disk.
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes, store.file_bytes(request.file()));
  PHUB_RETURN_IF_ERROR(table_.admit_restored(head.spec, tenant, bytes));
  PHUB_RETURN_IF_ERROR(store.verify(request.file()).error());
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t job_id,
                        table_.create(head.spec, tenant, std::nullopt, request.file()));
  reply.set_job_id(job_id);
  fill({.file = request.file(),
        .tenant = tenant,
        .tenant_id = owner,
        .job = was,
        .round = head.round,
        .bytes = 0,
        .created = head.created,
        .sha256 = head.sha256},
       *reply.mutable_snapshot());
  return {};
}

void SnapshotService::admit_take(grpc::CallbackServerContext& context,
                                 const control::TakeRequest& request, control::TakeReply& reply,
                                 grpc::ServerUnaryReactor& reactor) {
  const Result<Principal> caller = gate_.admit(&context, Right::kChangeJobs, kTakeAction);
  if (!caller) return reactor.Finish(to_grpc(caller.error()));
  if (const Status named = check_names(request); !named.ok()) return reactor.Finish(to_grpc(named));
  const JobName name{namespace_of(*caller, request.tenant()), request.name()};
  const auto run = [this, &context, &request, &reply, &reactor, name, caller = *caller] {
    const WantedSnapshot wanted{
        .round = request.round(), .timeout_ms = request.timeout_ms(), .call = &context};
    const Status outcome =
        can_see(caller, name.tenant) ? take(name, wanted, reply) : unknown_job(to_string(name));
    reactor.Finish(gate_.audited(caller, kTakeAction, to_string(name), outcome));
  };
  // Another tenant's name takes nothing of that tenant's.
  const std::string& counted = can_see(*caller, name.tenant) ? name.tenant : caller->tenant;
  const Status posted = threads_.takes.post(counted, run);
  if (!posted.ok()) reactor.Finish(to_grpc(posted));
}

grpc::ServerUnaryReactor* SnapshotService::Take(grpc::CallbackServerContext* context,
                                                const control::TakeRequest* request,
                                                control::TakeReply* reply) {
  auto* const reactor = context->DefaultReactor();
  const Status posted = threads_.door.post(kNobodyYet, [this, context, request, reply, reactor] {
    admit_take(*context, *request, *reply, *reactor);
  });
  if (!posted.ok()) reactor->Finish(to_grpc(posted));
  return reactor;
}

grpc::Status SnapshotService::list(grpc::ServerContextBase* context,
                                   const control::ListSnapshotsRequest* /*request*/,
                                   control::ListSnapshotsReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, gate_.admit(context, Right::kRead));
  if (snapshotter_ == nullptr) return to_grpc(no_folder());
  for (const SnapshotInfo& info : snapshotter_->store().list()) {
    if (can_see(caller, info.tenant_id)) fill(info, *reply->add_snapshots());
  }
  return grpc::Status::OK;
}

grpc::Status SnapshotService::restore(grpc::ServerContextBase* context,
                                      const control::RestoreRequest* request,
                                      control::RestoreReply* reply) {
  constexpr std::string_view kAction = "snapshot restore";
  PHUB_CALLER_OR_RETURN(const Principal caller, gate_.admit(context, Right::kChangeJobs, kAction));
  return gate_.audited(caller, kAction, request->file(), restore_for(caller, *request, *reply));
}

grpc::Status SnapshotService::remove(grpc::ServerContextBase* context,
                                     const control::DeleteSnapshotRequest* request,
                                     control::DeleteSnapshotReply* reply) {
  constexpr std::string_view kAction = "snapshot delete";
  PHUB_CALLER_OR_RETURN(const Principal caller, gate_.admit(context, Right::kChangeJobs, kAction));
  const auto removed = [&]() -> Status {
    if (snapshotter_ == nullptr) return no_folder();
    const std::string& file = request->file();
    if (!can_see(caller, SnapshotStore::tenant_id_of(file)))
      return SnapshotStore::no_snapshot(file);
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes, snapshotter_->store().remove(file));
    reply->set_bytes(bytes);
    return {};
  };
  return gate_.audited(caller, kAction, request->file(), removed());
}

}  // namespace phub::server
