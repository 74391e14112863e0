// The gRPC service Admin: what people and tools call.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "server/data_plane.h"
#include "server/job_table.h"

namespace phub::server {

class AdminService final : public control::Admin::Service {
 public:
  // `waiting` describes how the cores wait for work.
  AdminService(JobTable& table, const DataPlane& data_plane, std::string waiting);

  grpc::Status CreateJob(grpc::ServerContext* context, const control::CreateJobRequest* request,
                         control::CreateJobReply* reply) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const control::ListJobsRequest* request,
                        control::ListJobsReply* reply) override;
  grpc::Status InspectJob(grpc::ServerContext* context, const control::InspectJobRequest* request,
                          control::InspectJobReply* reply) override;
  grpc::Status CloseJob(grpc::ServerContext* context, const control::CloseJobRequest* request,
                        control::CloseJobReply* reply) override;
  grpc::Status Plan(grpc::ServerContext* context, const control::PlanRequest* request,
                    control::PlanReply* reply) override;
  grpc::Status Statistics(grpc::ServerContext* context, const control::StatisticsRequest* request,
                          control::StatisticsReply* reply) override;
  grpc::Status Trace(grpc::ServerContext* context, const control::TraceRequest* request,
                     control::TraceReply* reply) override;
  grpc::Status Drain(grpc::ServerContext* context, const control::DrainRequest* request,
                     control::DrainReply* reply) override;

  // What Statistics answers, and what ListJobs adds to a job. Any thread.
  void fill_server(control::ServerInfo& server);
  void fill_timing(const JobView& view, control::JobInfo& message) const;

 private:
  // The share of the time since the last call that each core was busy; the last answer again when
  // that was just now.
  std::vector<double> busy_shares(const std::vector<CoreCounters>& cores);

  JobTable& table_;
  const DataPlane& data_plane_;
  const std::string waiting_;
  const TimePoint started_;

  std::mutex mutex_;  // guards the three below
  TimePoint last_call_;
  std::vector<std::uint64_t> last_busy_nanoseconds_;
  std::vector<double> last_shares_;
};

}  // namespace phub::server
