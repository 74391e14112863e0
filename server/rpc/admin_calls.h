// The gRPC service Admin: which right each call needs, and who answers it, on a thread that is
// counted by who calls.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <type_traits>

#include "proto/control.grpc.pb.h"
#include "server/rpc/admin.h"
#include "server/rpc/calls.h"
#include "server/rpc/tenants.h"

namespace phub::server {

class AdminCalls final : public control::Admin::CallbackService {
 public:
  // All outlive the calls.
  AdminCalls(AdminService& service, TenantAdmin& tenants, Tenancy* tenancy,
             const ControlPeers& peers, CallThreads& threads)
      : service_(service),
        tenants_(tenants),
        authorizer_(tenancy, peers),
        calls_(authorizer_, threads) {}

#define PHUB_CALL(Name, service, ...)                                                     \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* context,                    \
                                 const control::Name##Request* request,                   \
                                 control::Name##Reply* reply) override {                  \
    return calls_.run(context, {__VA_ARGS__}, service,                                    \
                      &std::remove_reference_t<decltype(service)>::Name, request, reply); \
  }
  PHUB_CALL(CreateJob, service_, Right::kChangeJobs, "job create")
  PHUB_CALL(ListJobs, service_, Right::kRead)
  PHUB_CALL(InspectJob, service_, Right::kRead)
  PHUB_CALL(CloseJob, service_, Right::kChangeJobs, "job close")
  PHUB_CALL(Plan, service_, Right::kRead)
  PHUB_CALL(Statistics, service_, Right::kRead)
  PHUB_CALL(Trace, service_, Right::kRead)
  PHUB_CALL(Drain, service_, Right::kAdminister, "drain")
  PHUB_CALL(CreateTenant, tenants_, Right::kAdminister, "tenant create")
  PHUB_CALL(ListTenants, tenants_, Right::kRead)
  PHUB_CALL(InspectTenant, tenants_, Right::kRead)
  PHUB_CALL(SetTenant, tenants_, Right::kAdminister, "tenant set")
  PHUB_CALL(DeleteTenant, tenants_, Right::kAdminister, "tenant delete")
  PHUB_CALL(CreateToken, tenants_, Right::kAdminister, "token create")
  PHUB_CALL(ListTokens, tenants_, Right::kAdminister, "token list")
  PHUB_CALL(RevokeToken, tenants_, Right::kAdminister, "token revoke")
  PHUB_CALL(ListAudit, tenants_, Right::kAdminister, "audit")
#undef PHUB_CALL

 private:
  AdminService& service_;
  TenantAdmin& tenants_;
  const Authorizer authorizer_;
  const Calls calls_;
};

}  // namespace phub::server
