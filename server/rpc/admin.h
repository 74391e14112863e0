// What people and tools call: the gRPC service Admin, but for tenants (tenants.h) and its threads
// (admin_calls.h).
//
// Owned by the ControlService; any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "server/access/tenancy.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"
#include "server/rpc/authorizer.h"

namespace phub::server {

class AdminService final {
 public:
  // `waiting` describes how the cores wait for work. `tenancy` null: everybody may do everything,
  // and there is the default tenant only.
  AdminService(JobTable& table, const DataPlane& data_plane, std::string waiting,
               Tenancy* tenancy = nullptr);

  grpc::Status CreateJob(grpc::ServerContextBase* context, const control::CreateJobRequest* request,
                         control::CreateJobReply* reply);
  grpc::Status ListJobs(grpc::ServerContextBase* context, const control::ListJobsRequest* request,
                        control::ListJobsReply* reply);
  grpc::Status InspectJob(grpc::ServerContextBase* context,
                          const control::InspectJobRequest* request,
                          control::InspectJobReply* reply);
  grpc::Status CloseJob(grpc::ServerContextBase* context, const control::CloseJobRequest* request,
                        control::CloseJobReply* reply);
  grpc::Status Plan(grpc::ServerContextBase* context, const control::PlanRequest* request,
                    control::PlanReply* reply);
  grpc::Status Statistics(grpc::ServerContextBase* context,
                          const control::StatisticsRequest* request,
                          control::StatisticsReply* reply);
  grpc::Status Trace(grpc::ServerContextBase* context, const control::TraceRequest* request,
                     control::TraceReply* reply);
  grpc::Status Drain(grpc::ServerContextBase* context, const control::DrainRequest* request,
                     control::DrainReply* reply);

  const Authorizer& authorizer() const { return authorizer_; }

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
  const Authorizer authorizer_;
  const TimePoint started_;

  std::mutex mutex_;  // guards the three below
  TimePoint last_call_;
  std::vector<std::uint64_t> last_busy_nanoseconds_;
  std::vector<double> last_shares_;
};

}  // namespace phub::server
