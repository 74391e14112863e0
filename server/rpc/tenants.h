// Tenants, tokens and the audit log in the gRPC service Admin; who may call what: admin_calls.h.
//
// Owned by the ControlService; any thread.
#pragma once

#include <cstddef>

#include "proto/control.pb.h"
#include "server/access/tenancy.h"
#include "server/jobs/table.h"
#include "server/rpc/calls.h"

namespace phub::server {

class TenantAdmin final {
 public:
  // `tenancy` null: there is the default tenant only, and nothing may be changed. `snapshots` null:
  // there are none.
  TenantAdmin(JobTable& table, Tenancy* tenancy, const SnapshotStore* snapshots)
      : table_(table), tenancy_(tenancy), snapshots_(snapshots) {}

  // The first `most` of the tenants that `caller` sees, by name.
  void list(const Principal& caller, std::size_t most,
            google::protobuf::RepeatedPtrField<control::TenantInfo>& tenants) const;

  Status CreateTenant(Call& call, const control::CreateTenantRequest& request,
                      control::CreateTenantReply& reply);
  Status ListTenants(Call& call, const control::ListTenantsRequest& request,
                     control::ListTenantsReply& reply);
  Status InspectTenant(Call& call, const control::InspectTenantRequest& request,
                       control::InspectTenantReply& reply);
  Status SetTenant(Call& call, const control::SetTenantRequest& request,
                   control::SetTenantReply& reply);
  Status DeleteTenant(Call& call, const control::DeleteTenantRequest& request,
                      control::DeleteTenantReply& reply);
  Status CreateToken(Call& call, const control::CreateTokenRequest& request,
                     control::CreateTokenReply& reply);
  Status ListTokens(Call& call, const control::ListTokensRequest& request,
                    control::ListTokensReply& reply);
  Status RevokeToken(Call& call, const control::RevokeTokenRequest& request,
                     control::RevokeTokenReply& reply);
  Status ListAudit(Call& call, const control::ListAuditRequest& request,
                   control::ListAuditReply& reply);

 private:
  void fill(const Tenant& tenant, control::TenantInfo& message) const;
  void fill(const Token& token, control::TokenInfo& message) const;
  // An error where there is no tenancy.
  Status has_tenants() const;

  JobTable& table_;
  Tenancy* const tenancy_;
  const SnapshotStore* const snapshots_;
};

}  // namespace phub::server
