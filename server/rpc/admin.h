// What people and tools call: the gRPC service Admin, but for tenants (tenants.h). Who may call
// what: admin_calls.h.
//
// Owned by the ControlService; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/access/tenancy.h"
#include "server/door/tls_keeper.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"
#include "server/rpc/calls.h"

namespace phub::server {

class AdminService final {
 public:
  using Certificates = std::function<std::vector<CertificateExpiry>()>;

  // `waiting` describes how the cores wait for work. `tenancy` null: there is the default tenant
  // only. `certificates` tells when those of the control port expire; null: it has none.
  AdminService(JobTable& table, const DataPlane& data_plane, std::string waiting,
               Tenancy* tenancy = nullptr, Certificates certificates = {});

  Status CreateJob(Call& call, const control::CreateJobRequest& request,
                   control::CreateJobReply& reply);
  Status ListJobs(Call& call, const control::ListJobsRequest& request,
                  control::ListJobsReply& reply);
  Status InspectJob(Call& call, const control::InspectJobRequest& request,
                    control::InspectJobReply& reply);
  Status CloseJob(Call& call, const control::CloseJobRequest& request,
                  control::CloseJobReply& reply);
  Status Plan(Call& call, const control::PlanRequest& request, control::PlanReply& reply);
  Status Statistics(Call& call, const control::StatisticsRequest& request,
                    control::StatisticsReply& reply);
  Status Trace(Call& call, const control::TraceRequest& request, control::TraceReply& reply);
  Status Drain(Call& call, const control::DrainRequest& request, control::DrainReply& reply);

  // What Statistics answers to an observer, and what ListJobs adds to a job. Any thread.
  void fill_server(control::ServerInfo& server);
  void fill_timing(const JobView& view, control::JobInfo& message) const;

 private:
  // The share of the time since the last call that each core was busy; the last answer again when
  // that was just now.
  std::vector<double> busy_shares(const std::vector<CoreCounters>& cores);

  JobTable& table_;
  const DataPlane& data_plane_;
  const std::string waiting_;
  Tenancy* const tenancy_;
  const Certificates certificates_;
  const TimePoint started_;

  std::mutex mutex_;  // guards the three below
  TimePoint last_call_;
  std::vector<std::uint64_t> last_busy_nanoseconds_;
  std::vector<double> last_shares_;
};

}  // namespace phub::server
