// Tenants, tokens and the audit log in the gRPC service Admin, but for its threads (admin_calls.h).
//
// Owned by the ControlService; any thread.
#pragma once

#include <string_view>

#include "proto/control.grpc.pb.h"
#include "server/access/tenancy.h"
#include "server/jobs/table.h"
#include "server/rpc/authorizer.h"

namespace phub::server {

class TenantAdmin final {
 public:
  // `tenancy` null: there is the default tenant only, and nothing may be changed. `snapshots` null:
  // there are none.
  // The authorizer is that of all of Admin's calls: a tenant's rate is one.
  TenantAdmin(JobTable& table, Tenancy* tenancy, const SnapshotStore* snapshots,
              const Authorizer& authorizer)
      : table_(table), tenancy_(tenancy), snapshots_(snapshots), authorizer_(authorizer) {}

  grpc::Status CreateTenant(grpc::ServerContextBase* context,
                            const control::CreateTenantRequest* request,
                            control::CreateTenantReply* reply);
  grpc::Status ListTenants(grpc::ServerContextBase* context,
                           const control::ListTenantsRequest* request,
                           control::ListTenantsReply* reply);
  grpc::Status InspectTenant(grpc::ServerContextBase* context,
                             const control::InspectTenantRequest* request,
                             control::InspectTenantReply* reply);
  grpc::Status SetTenant(grpc::ServerContextBase* context, const control::SetTenantRequest* request,
                         control::SetTenantReply* reply);
  grpc::Status DeleteTenant(grpc::ServerContextBase* context,
                            const control::DeleteTenantRequest* request,
                            control::DeleteTenantReply* reply);
  grpc::Status CreateToken(grpc::ServerContextBase* context,
                           const control::CreateTokenRequest* request,
                           control::CreateTokenReply* reply);
  grpc::Status ListTokens(grpc::ServerContextBase* context,
                          const control::ListTokensRequest* request,
                          control::ListTokensReply* reply);
  grpc::Status RevokeToken(grpc::ServerContextBase* context,
                           const control::RevokeTokenRequest* request,
                           control::RevokeTokenReply* reply);
  grpc::Status ListAudit(grpc::ServerContextBase* context, const control::ListAuditRequest* request,
                         control::ListAuditReply* reply);

 private:
  void fill(const Tenant& tenant, control::TenantInfo& message) const;
  void fill(const Token& token, control::TokenInfo& message) const;
  Status delete_tenant(const control::DeleteTenantRequest& request);
  Status create_token(const control::CreateTokenRequest& request, control::CreateTokenReply& reply);
  // An error where there is no tenancy.
  Result<Principal> admit_administrator(grpc::ServerContextBase* context, std::string_view action);

  JobTable& table_;
  Tenancy* const tenancy_;
  const SnapshotStore* const snapshots_;
  const Authorizer& authorizer_;
};

}  // namespace phub::server
