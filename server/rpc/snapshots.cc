#include "server/rpc/snapshots.h"

#include <memory>
#include <string_view>
#include <utility>

#include "common/job/workers.h"
#include "common/rpc/status.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr std::string_view kTakeAction = "snapshot take";

}  // namespace

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

Status SnapshotService::restore(Call& call, const control::RestoreRequest& request,
                                control::RestoreReply& reply) {
  call.changed = request.file();
  if (snapshotter_ == nullptr) return no_snapshots();
  // Another tenant's is not there, as far as the caller can tell, damaged or not.
  const auto owner = SnapshotStore::tenant_id_of(request.file());
  if (!can_see(call.caller, owner)) return SnapshotStore::no_snapshot(request.file());
  const SnapshotStore& store = snapshotter_->store();
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, store.head(request.file()));
  PHUB_ASSIGN_OR_RETURN(const std::string tenant, tenant_of(head, owner, request.file()));
  const std::string was = head.spec.name;
  if (!request.name().empty()) head.spec.name = request.name();
  PHUB_ASSIGN_OR_RETURN(const WithWorkers now,
                        with_workers(std::move(head.spec), request.workers()));
  // What would be refused is refused before its data is read, which may be all of a disk.
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes, store.file_bytes(request.file()));
  PHUB_RETURN_IF_ERROR(table_.life.admit_restored(now.spec, tenant, bytes));
  const Result<JobView> before = table_.views.inspect({tenant, now.spec.name}, 0);
  const bool waits = before && before->state == JobState::kWaiting;
  PHUB_RETURN_IF_ERROR(store.verify(request.file()).error());
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t job_id,
                        table_.life.create(now.spec, tenant, std::nullopt, request.file(),
                                            request.by_workers()));
  reply.set_job_id(job_id);
  if (waits)
    reply.add_notes("it waited under that name without workers, and keeps its id and nonce");
  for (const std::string& note : now.notes) reply.add_notes(note);
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
  const Result<Principal> caller = authorizer_.authorize(&context, Right::kChangeJobs, kTakeAction);
  if (!caller) return reactor.Finish(to_grpc(caller.error()));
  if (const Status named = check_names(request); !named.ok()) return reactor.Finish(to_grpc(named));
  reactor.StartSendInitialMetadata();  // it may wait for long: who is admitted is known at once
  const JobName name{namespace_of(*caller, request.tenant()), request.name()};
  const auto find = [this, name, sees = can_see(*caller, name.tenant)]() -> Result<JobView> {
    if (!sees) return unknown_job(to_string(name));
    return table_.views.inspect(name, 0);
  };
  const auto end = [this, &reactor, name, caller = *caller](const Status& outcome) {
    reactor.Finish(authorizer_.audited(caller, kTakeAction, to_string(name), outcome));
  };
  // Another tenant's name takes nothing of that tenant's.
  const std::string& counted = can_see(*caller, name.tenant) ? name.tenant : caller->tenant;
  const WantedSnapshot wanted{
      .round = request.round(), .timeout_ms = request.timeout_ms(), .call = &context};
  const Status posted =
      post(threads_, counted,
           std::make_shared<SnapshotCall>(table_, snapshotter_, wanted, reply, find, end));
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

Status SnapshotService::list(Call& call, const control::ListSnapshotsRequest& /*request*/,
                             control::ListSnapshotsReply& reply) {
  if (snapshotter_ == nullptr) return no_snapshots();
  const auto sees = [&](std::optional<std::uint32_t> owner) { return can_see(call.caller, owner); };
  for (const SnapshotInfo& info : snapshotter_->store().list(sees)) {
    fill(info, *reply.add_snapshots());
  }
  return {};
}

Status SnapshotService::remove(Call& call, const control::DeleteSnapshotRequest& request,
                               control::DeleteSnapshotReply& reply) {
  const std::string& file = request.file();
  call.changed = file;
  if (snapshotter_ == nullptr) return no_snapshots();
  if (!can_see(call.caller, SnapshotStore::tenant_id_of(file))) {
    return SnapshotStore::no_snapshot(file);
  }
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes, snapshotter_->store().remove(file));
  reply.set_bytes(bytes);
  return {};
}

}  // namespace phub::server
