// The gRPC service Admin: each call runs on a thread that is counted by who calls.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include "proto/control.grpc.pb.h"
#include "server/rpc/admin.h"
#include "server/rpc/calls.h"
#include "server/rpc/tenants.h"

namespace phub::server {

class AdminCalls final : public control::Admin::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  // All outlive the calls.
  AdminCalls(AdminService& service, TenantAdmin& tenants, CallThreads& threads)
      : service_(service), tenants_(tenants), calls_(service.authorizer(), threads) {}

  Reactor* CreateJob(Context* context, const control::CreateJobRequest* request,
                     control::CreateJobReply* reply) override {
    return calls_.run(context, service_, &AdminService::CreateJob, request, reply);
  }
  Reactor* ListJobs(Context* context, const control::ListJobsRequest* request,
                    control::ListJobsReply* reply) override {
    return calls_.run(context, service_, &AdminService::ListJobs, request, reply);
  }
  Reactor* InspectJob(Context* context, const control::InspectJobRequest* request,
                      control::InspectJobReply* reply) override {
    return calls_.run(context, service_, &AdminService::InspectJob, request, reply);
  }
  Reactor* CloseJob(Context* context, const control::CloseJobRequest* request,
                    control::CloseJobReply* reply) override {
    return calls_.run(context, service_, &AdminService::CloseJob, request, reply);
  }
  Reactor* Plan(Context* context, const control::PlanRequest* request,
                control::PlanReply* reply) override {
    return calls_.run(context, service_, &AdminService::Plan, request, reply);
  }
  Reactor* Statistics(Context* context, const control::StatisticsRequest* request,
                      control::StatisticsReply* reply) override {
    return calls_.run(context, service_, &AdminService::Statistics, request, reply);
  }
  Reactor* Trace(Context* context, const control::TraceRequest* request,
                 control::TraceReply* reply) override {
    return calls_.run(context, service_, &AdminService::Trace, request, reply);
  }
  Reactor* Drain(Context* context, const control::DrainRequest* request,
                 control::DrainReply* reply) override {
    return calls_.run(context, service_, &AdminService::Drain, request, reply);
  }
  Reactor* CreateTenant(Context* context, const control::CreateTenantRequest* request,
                        control::CreateTenantReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::CreateTenant, request, reply);
  }
  Reactor* ListTenants(Context* context, const control::ListTenantsRequest* request,
                       control::ListTenantsReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::ListTenants, request, reply);
  }
  Reactor* InspectTenant(Context* context, const control::InspectTenantRequest* request,
                         control::InspectTenantReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::InspectTenant, request, reply);
  }
  Reactor* SetTenant(Context* context, const control::SetTenantRequest* request,
                     control::SetTenantReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::SetTenant, request, reply);
  }
  Reactor* DeleteTenant(Context* context, const control::DeleteTenantRequest* request,
                        control::DeleteTenantReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::DeleteTenant, request, reply);
  }
  Reactor* CreateToken(Context* context, const control::CreateTokenRequest* request,
                       control::CreateTokenReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::CreateToken, request, reply);
  }
  Reactor* ListTokens(Context* context, const control::ListTokensRequest* request,
                      control::ListTokensReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::ListTokens, request, reply);
  }
  Reactor* RevokeToken(Context* context, const control::RevokeTokenRequest* request,
                       control::RevokeTokenReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::RevokeToken, request, reply);
  }
  Reactor* ListAudit(Context* context, const control::ListAuditRequest* request,
                     control::ListAuditReply* reply) override {
    return calls_.run(context, tenants_, &TenantAdmin::ListAudit, request, reply);
  }

 private:
  AdminService& service_;
  TenantAdmin& tenants_;
  const Calls calls_;
};

}  // namespace phub::server
