#include "server/rpc/take.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace phub::server {
namespace {

constexpr std::uint32_t kTimeoutMsDefault = 30'000;
constexpr std::uint32_t kTimeoutMsMax = 3'600'000;
constexpr std::chrono::milliseconds kLookAtRacks{20};

}  // namespace

Status no_snapshots() {
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

Status SnapshotCall::begin() {
  PHUB_ASSIGN_OR_RETURN(const JobView job, find_());
  job_id_ = job.id;
  if (snapshotter_ == nullptr) return no_snapshots();
  if (wanted_.timeout_ms > kTimeoutMsMax) {
    return {Code::kInvalidArgument,
            "timeout_ms: at most " + std::to_string(kTimeoutMsMax) + " (an hour)"};
  }
  PHUB_ASSIGN_OR_RETURN(admitted_, table_.usage.admit_copy_of(job.id));
  const std::uint32_t timeout_ms = wanted_.timeout_ms == 0 ? kTimeoutMsDefault : wanted_.timeout_ms;
  const CopyMoment moment{
      .round = wanted_.round,
      .timeout = std::chrono::milliseconds(timeout_ms),
      .is_cancelled = [call = wanted_.call] { return call != nullptr && call->IsCancelled(); }};
  taking_ = snapshotter_->begin({.job_id = job.id,
                                 .label = to_string(name_of(job)),
                                 .spec = job.spec,
                                 .samples = [this] { return table_.views.samples(job_id_); },
                                 .tenant = admitted_.tenant,
                                 .plan = admitted_.plan,
                                 .server_index = admitted_.server_index,
                                 .moment = moment,
                                 .asked_by = wanted_.asked_by});
  if (wanted_.links == nullptr || job.spec->racks.empty()) return {};
  PHUB_ASSIGN_OR_RETURN(others_, wanted_.links->snapshot(job.id, wanted_.round, moment.timeout));
  return {};
}

Result<bool> SnapshotCall::go_on() {
  if (reply_.has_snapshot()) return end_there();
  if (taking_ == nullptr) PHUB_RETURN_IF_ERROR(begin());
  PHUB_ASSIGN_OR_RETURN(const std::optional<TakenSnapshot> taken, taking_->step());
  if (!taken) return false;
  fill(taken->info, *reply_.mutable_snapshot());
  reply_.set_pause_seconds(taken->pause_seconds);
  reply_.set_seconds(taken->seconds);
  taking_.reset();
  admitted_ = {};
  return end_there();
}

Result<bool> SnapshotCall::end_there() {
  if (others_ == nullptr) return true;
  if (!others_->is_over()) {
    if (wanted_.call == nullptr || !wanted_.call->IsCancelled()) return false;
    return Status(Code::kAborted, "the caller is not there any more");
  }
  PHUB_ASSIGN_OR_RETURN(const std::vector<RackFile> files, others_->files());
  for (const RackFile& each : files) {
    control::RackSnapshot& message = *reply_.add_other_racks();
    message.set_rack(each.rack);
    message.set_address(each.address);
    message.set_file(each.file);
  }
  return true;
}

std::optional<std::chrono::microseconds> SnapshotCall::step() {
  const Result<bool> is_over = go_on();
  if (is_over && !*is_over) return taking_ == nullptr ? kLookAtRacks : taking_->rest();
  taking_.reset();
  others_.reset();
  admitted_ = {};
  const bool is_given_up = !is_over && is_over.error().code() == Code::kAborted;
  if (job_id_ != 0 && !is_given_up) table_.life.note_snapshot(job_id_, is_over.error());
  end_(is_over.error());
  return std::nullopt;
}

Status post(CallThreads& threads, const std::string& tenant, std::shared_ptr<SnapshotCall> call) {
  return threads.takes.post_steps(tenant, [call = std::move(call)] { return call->step(); });
}

}  // namespace phub::server
