#include "server/rpc/admin.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <utility>

#include "common/base/version.h"
#include "common/job/message.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr std::chrono::milliseconds kBusyWindowMin{250};

// Of this process; 0 when the system does not say.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return file ? resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

AdminService::AdminService(JobTable& table, const DataPlane& data_plane, std::string waiting,
                           Tenancy* tenancy, Certificates certificates)
    : table_(table),
      data_plane_(data_plane),
      waiting_(std::move(waiting)),
      tenancy_(tenancy),
      certificates_(std::move(certificates)),
      started_(std::chrono::steady_clock::now()),
      last_call_(started_) {}

Status AdminService::CreateJob(Call& call, const control::CreateJobRequest& request,
                               control::CreateJobReply& reply) {
  const std::string tenant = namespace_of(call.caller, request.tenant());
  call.changed = to_string(JobName{tenant, request.spec().name()});
  PHUB_ASSIGN_OR_RETURN(const JobSpec spec, spec_from(request.spec()));
  if (!can_see(call.caller, tenant)) return unknown_tenant(tenant);
  PHUB_ASSIGN_OR_RETURN(const std::string nonce, random_secret());
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t job_id,
                        table_.life.create(spec, tenant, digest_of(nonce)));
  reply.set_job_id(job_id);
  reply.set_nonce(nonce);
  return {};
}

Status AdminService::ListJobs(Call& call, const control::ListJobsRequest& request,
                              control::ListJobsReply& reply) {
  for (const JobView& view : table_.views.list()) {
    const bool is_asked_for = request.tenant().empty() || request.tenant() == view.tenant;
    if (!is_asked_for || !can_see(call.caller, view.tenant)) continue;
    control::JobInfo& job = *reply.add_jobs();
    server::fill(view, Keys::kLeftOut, job);
    fill_timing(view, job);
  }
  return {};
}

Status AdminService::InspectJob(Call& call, const control::InspectJobRequest& request,
                                control::InspectJobReply& reply) {
  const JobName name{namespace_of(call.caller, request.tenant()), request.name()};
  PHUB_ASSIGN_OR_RETURN(const JobView view, table_.views.inspect(name, request.job_id()));
  if (!can_see(call.caller, view.tenant)) {
    return unknown_job(request.job_id() == 0 ? to_string(name)
                                             : fmt::format("id {}", request.job_id()));
  }
  server::fill(view, Keys::kIncluded, *reply.mutable_job());
  fill_timing(view, *reply.mutable_job());
  return {};
}

void AdminService::fill_timing(const JobView& view, control::JobInfo& message) const {
  if (view.state != JobState::kWaiting && view.state != JobState::kRunning) return;
  const auto timing = timing_of(data_plane_.job_rounds(view.id, RoundLog::kRounds));
  server::fill(view, timing, *message.mutable_timing());
}

Status AdminService::Trace(Call& call, const control::TraceRequest& request,
                           control::TraceReply& reply) {
  if (request.rounds() == 0 || request.rounds() > RoundLog::kRounds) {
    return {Code::kInvalidArgument,
            "rounds: allowed are 1 to " + std::to_string(RoundLog::kRounds)};
  }
  const JobName name{namespace_of(call.caller, request.tenant()), request.name()};
  if (!can_see(call.caller, name.tenant)) return unknown_job(to_string(name));
  PHUB_ASSIGN_OR_RETURN(const JobView view, table_.views.inspect(name, 0));
  server::fill(view, data_plane_.job_rounds(view.id, request.rounds()), reply);
  control::JobInfo job;
  server::fill(view, Keys::kLeftOut, job);
  *reply.mutable_members() = job.members();
  return {};
}

Status AdminService::CloseJob(Call& call, const control::CloseJobRequest& request,
                              control::CloseJobReply& /*reply*/) {
  const JobName name{namespace_of(call.caller, request.tenant()), request.name()};
  call.changed = to_string(name);
  return can_see(call.caller, name.tenant) ? table_.life.close(name) : no_live_job(name);
}

Status AdminService::Plan(Call& call, const control::PlanRequest& request,
                          control::PlanReply& reply) {
  const JobName name{namespace_of(call.caller, request.tenant()), request.name()};
  if (!can_see(call.caller, name.tenant)) return no_live_job(name);
  PHUB_ASSIGN_OR_RETURN(const PlanView view, table_.views.plan(name));
  server::fill(view, reply);
  return {};
}

std::vector<double> AdminService::busy_shares(const std::vector<CoreCounters>& cores) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  const double nanoseconds =
      std::max(1.0, std::chrono::duration<double, std::nano>(now - last_call_).count());
  // Several may ask: a share of a few milliseconds would tell nobody anything.
  if (!last_shares_.empty() && now - last_call_ < kBusyWindowMin) return last_shares_;
  last_call_ = now;
  last_busy_nanoseconds_.resize(cores.size(), 0);
  last_shares_.clear();
  for (std::size_t core = 0; core < cores.size(); ++core) {
    // A core counts a sleep when it ends, so the counter may go back a little.
    const std::uint64_t total = cores[core].busy_nanoseconds;
    const std::uint64_t last = std::min(total, last_busy_nanoseconds_[core]);
    last_busy_nanoseconds_[core] = total;
    last_shares_.push_back(std::min(1.0, static_cast<double>(total - last) / nanoseconds));
  }
  return last_shares_;
}

Status AdminService::Statistics(Call& call, const control::StatisticsRequest& /*request*/,
                                control::StatisticsReply& reply) {
  fill_server(*reply.mutable_server());
  if (call.caller.role == Role::kTenant) {
    redact_other_tenants(call.caller.tenant, table_.usage.of(call.caller.tenant),
                         *reply.mutable_server());
  }
  return {};
}

void AdminService::fill_server(control::ServerInfo& server) {
  server.set_version(kVersion);
  const auto uptime = std::chrono::steady_clock::now() - started_;
  server.set_uptime_seconds(std::chrono::duration<double>(uptime).count());
  server.set_draining(table_.views.is_draining());
  server.set_resident_bytes(resident_bytes());
  server.set_jobs(static_cast<std::uint32_t>(table_.views.live_jobs()));
  server.set_waiting(waiting_);
  server.set_encrypts_data(data_plane_.encrypts_tcp());
  if (certificates_) {
    for (const CertificateExpiry& expiry : certificates_()) {
      control::CertificateInfo& certificate = *server.add_certificates();
      certificate.set_what(expiry.what);
      certificate.set_expires_unix_seconds(expiry.unix_s);
    }
  }
  const std::vector<CoreCounters> cores = data_plane_.core_counters();
  const std::vector<double> shares = busy_shares(cores);
  std::map<std::uint64_t, JobView> jobs;
  for (JobView& view : table_.views.list()) jobs.emplace(view.id, std::move(view));
  for (std::size_t index = 0; index < cores.size(); ++index) {
    control::CoreInfo* const core = server.add_cores();
    server::fill(cores[index].jobs, jobs, *core);
    core->set_core(static_cast<std::uint32_t>(index));
    core->set_cpu(cores[index].cpu);
    core->set_chunks_completed(cores[index].chunks_completed);
    core->set_bytes_received(cores[index].bytes_received);
    core->set_bytes_sent(cores[index].bytes_sent);
    core->set_busy_share(shares[index]);
    core->set_sleeps(cores[index].sleeps);
    core->set_connections(cores[index].connections);
  }
  for (const PortStatus& port : data_plane_.port_statuses())
    server::fill(port, *server.add_ports());
  for (const DropCounter& drop : data_plane_.drops()) {
    control::Drop* const entry = server.add_drops();
    entry->set_cause(std::string(drop.cause));
    entry->set_count(drop.count);
  }
  if (tenancy_ != nullptr) {
    control::Drop* const refused = server.add_drops();
    refused->set_cause("refused credentials");
    refused->set_count(tenancy_->access.refusals());
  }
}

Status AdminService::Drain(Call& call, const control::DrainRequest& request,
                           control::DrainReply& reply) {
  call.changed = "";
  const std::size_t jobs =
      table_.drain(std::chrono::milliseconds(request.timeout_ms()), request.snapshots());
  reply.set_jobs_running(static_cast<std::uint32_t>(jobs));
  return {};
}

}  // namespace phub::server
