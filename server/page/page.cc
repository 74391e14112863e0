#include "server/page/page.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/text/message_json.h"
#include "proto/page.pb.h"
#include "server/rpc/messages/messages.h"
#include "server/snapshot/newest_files.h"

namespace phub::server {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kSnapshotsShown = 50;
constexpr std::uint32_t kAuditsShown = 50;
constexpr std::size_t kTenantsShown = 200;

Principal principal_of(const Reader& reader) {
  if (reader.tenant.empty()) return {.role = Role::kObserver};
  return {.role = Role::kTenant, .tenant = reader.tenant, .tenant_id = reader.tenant_id};
}

void add_snapshots(const std::string& folder, const Principal& caller, page::PageRecords& records) {
  const auto sees = [&](std::optional<std::uint32_t> owner) { return can_see(caller, owner); };
  const NewestFiles newest = newest_files(folder, sees, kSnapshotsShown);
  records.set_snapshots_in_all(static_cast<std::uint32_t>(newest.in_all));
  for (const SnapshotFile& file : newest.files) {
    page::SnapshotFile& shown = *records.add_snapshots();
    shown.set_file(file.file);
    shown.set_job(file.job);
    shown.set_tenant(file.tenant);
    shown.set_round(file.round);
    shown.set_bytes(file.bytes);
    shown.set_unix_seconds(file.unix_s);
  }
}

double rounds_of(const JobCounters& counters) {
  return counters.chunks == 0 ? 0.0
                              : static_cast<double>(counters.chunks_completed) /
                                    static_cast<double>(counters.chunks);
}

}  // namespace

std::string PageData::state_json(const Reader& reader) {
  page::PageState state;
  const std::string& tenant = reader.tenant;
  state.set_tenant(tenant);
  admin_.fill_server(*state.mutable_server());
  if (!tenant.empty()) {
    redact_other_tenants(tenant, table_.usage.of(tenant), *state.mutable_server());
  }
  for (const JobView& view : table_.views.list()) {
    if (!tenant.empty() && view.tenant != tenant) continue;
    control::JobInfo& job = *state.add_jobs();
    fill(view, Keys::kLeftOut, job);
    admin_.fill_timing(view, job);
    if (view.state != JobState::kRunning) continue;
    const Result<PlanView> plan = table_.views.plan(name_of(view));
    if (!plan) continue;  // it has ended meanwhile
    page::JobPlan* const shown = state.add_plans();
    shown->set_job_id(view.id);
    shown->set_server(plan->server_index);
    fill_loads(*plan, *shown->mutable_loads());
  }
  return message_json(state);
}

std::string PageData::records_json(const Reader& reader) {
  page::PageRecords records;
  Call call{.caller = principal_of(reader)};
  tenants_.list(call.caller, kTenantsShown, *records.mutable_tenants());
  records.set_keeps_snapshots(snapshots_ != nullptr);
  if (snapshots_ != nullptr) add_snapshots(snapshots_->folder(), call.caller, records);
  records.set_sees_audit(reader.sees_audit);
  if (!reader.sees_audit) return message_json(records);
  control::ListAuditRequest last;
  last.set_count(kAuditsShown);
  control::ListAuditReply audit;
  if (tenants_.ListAudit(call, last, audit).ok()) {  // else the page asks again
    *records.mutable_audit() = std::move(*audit.mutable_entries());
    std::reverse(records.mutable_audit()->begin(), records.mutable_audit()->end());
  }
  return message_json(records);
}

std::string PageData::history_json(const Reader& reader) const {
  page::PageHistory history;
  const auto sees = [&](std::uint64_t job_id) {
    return reader.tenant.empty() || table_.views.tenant_of(job_id) == reader.tenant;
  };
  history_.fill(steady_clock::now(), sees, history);
  return message_json(history);
}

void PageData::look() {
  const steady_clock::time_point now = steady_clock::now();
  if (!history_.is_due(now)) return;
  Totals totals;
  for (const JobView& view : table_.views.list()) {
    if (view.state != JobState::kRunning && view.state != JobState::kWaiting) continue;
    totals.jobs.push_back({.job_id = view.id,
                           .rounds = rounds_of(view.counters),
                           .bytes_received = view.counters.bytes_received,
                           .bytes_sent = view.counters.bytes_sent});
  }
  for (const CoreCounters& core : data_plane_.core_counters()) {
    totals.busy_nanoseconds.push_back(core.busy_nanoseconds);
  }
  history_.add(now, std::move(totals));
}

}  // namespace phub::server
