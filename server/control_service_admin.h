// The gRPC service Admin: what people and tools call.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "server/control_service_gate.h"
#include "server/data_plane.h"
#include "server/job_table.h"
#include "server/tenants/tenancy.h"

namespace phub::server {

class AdminService final : public control::Admin::Service {
 public:
  // `waiting` describes how the cores wait for work. `tenancy` null: everybody may do everything,
  // and there is the default tenant only.
  AdminService(JobTable& table, const DataPlane& data_plane, std::string waiting,
               Tenancy* tenancy = nullptr, const SnapshotStore* snapshots = nullptr);

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

  // In control_service_tenants.cc.
  grpc::Status CreateTenant(grpc::ServerContext* context,
                            const control::CreateTenantRequest* request,
                            control::CreateTenantReply* reply) override;
  grpc::Status ListTenants(grpc::ServerContext* context, const control::ListTenantsRequest* request,
                           control::ListTenantsReply* reply) override;
  grpc::Status InspectTenant(grpc::ServerContext* context,
                             const control::InspectTenantRequest* request,
                             control::InspectTenantReply* reply) override;
  grpc::Status SetTenant(grpc::ServerContext* context, const control::SetTenantRequest* request,
                         control::SetTenantReply* reply) override;
  grpc::Status DeleteTenant(grpc::ServerContext* context,
                            const control::DeleteTenantRequest* request,
                            control::DeleteTenantReply* reply) override;
  grpc::Status CreateToken(grpc::ServerContext* context, const control::CreateTokenRequest* request,
                           control::CreateTokenReply* reply) override;
  grpc::Status ListTokens(grpc::ServerContext* context, const control::ListTokensRequest* request,
                          control::ListTokensReply* reply) override;
  grpc::Status RevokeToken(grpc::ServerContext* context, const control::RevokeTokenRequest* request,
                           control::RevokeTokenReply* reply) override;
  grpc::Status ListAudit(grpc::ServerContext* context, const control::ListAuditRequest* request,
                         control::ListAuditReply* reply) override;

  // What Statistics answers to an observer, and what ListJobs adds to a job. Any thread.
  void fill_server(control::ServerInfo& server);
  void fill_timing(const JobView& view, control::JobInfo& message) const;

 private:
  void fill(const Tenant& tenant, control::TenantInfo& message) const;
  void fill(const Token& token, control::TokenInfo& message) const;
  Status delete_tenant(const control::DeleteTenantRequest& request);
  Status create_token(const control::CreateTokenRequest& request, control::CreateTokenReply& reply);
  // An error where there is no tenancy.
  Result<Principal> admit_administrator(grpc::ServerContext* context, std::string_view action);

  // The share of the time since the last call that each core was busy; the last answer again when
  // that was just now.
  std::vector<double> busy_shares(const std::vector<CoreCounters>& cores);

  JobTable& table_;
  const DataPlane& data_plane_;
  const std::string waiting_;
  Tenancy* const tenancy_;
  const SnapshotStore* const snapshots_;  // null: there are none
  const Gate gate_;
  const TimePoint started_;

  std::mutex mutex_;  // guards the three below
  TimePoint last_call_;
  std::vector<std::uint64_t> last_busy_nanoseconds_;
  std::vector<double> last_shares_;
};

}  // namespace phub::server
