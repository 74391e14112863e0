#include "server/rpc/tenants.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kAuditsDefault = 100;
constexpr std::uint32_t kAuditsMax = 10'000;

Quotas quotas_from(const control::Quotas& message) {
  return {.memory_mib = message.memory_mib(),
          .connections = message.connections(),
          .jobs = message.jobs(),
          .weight = std::max(1U, message.weight()),
          .disk_mib = message.disk_mib()};
}

}  // namespace

void TenantAdmin::fill(const Tenant& tenant, control::TenantInfo& message) const {
  message.set_name(tenant.name);
  message.mutable_quotas()->set_memory_mib(tenant.quotas.memory_mib);
  message.mutable_quotas()->set_connections(tenant.quotas.connections);
  message.mutable_quotas()->set_jobs(tenant.quotas.jobs);
  message.mutable_quotas()->set_weight(tenant.quotas.weight);
  message.mutable_quotas()->set_disk_mib(tenant.quotas.disk_mib);
  if (snapshots_ != nullptr) message.set_disk_bytes(snapshots_->bytes_of(tenant));
  message.set_created_unix_seconds(tenant.created_unix_s);
  message.set_shared_id(tenant.shared_id);
  const Usage usage = table_.usage.of(tenant.name);
  message.set_live_jobs(usage.jobs);
  message.set_connections(usage.connections);
  message.set_memory_bytes(usage.memory_bytes);
  std::uint32_t tokens = 0;
  for (const Token& token : tenancy_->tokens.list()) {
    const bool is_its = token.role == Role::kTenant && token.tenant == tenant.name;
    if (is_its && tenancy_->tokens.is_live(token)) ++tokens;
  }
  message.set_tokens(tokens);
}

void TenantAdmin::fill(const Token& token, control::TokenInfo& message) const {
  message.set_token_id(token.id);
  message.set_role(std::string(name_of(token.role)));
  message.set_tenant(token.tenant);
  message.set_label(token.label);
  message.set_created_unix_seconds(token.created_unix_s);
  message.set_expires_unix_seconds(token.expires_unix_s);
  message.set_revoked(token.is_revoked);
  message.set_live(tenancy_->tokens.is_live(token));
}

void TenantAdmin::list(const Principal& caller, std::size_t most,
                       google::protobuf::RepeatedPtrField<control::TenantInfo>& tenants) const {
  if (tenancy_ == nullptr) return;
  for (const Tenant& tenant : tenancy_->directory.list()) {
    if (static_cast<std::size_t>(tenants.size()) >= most) return;
    if (can_see(caller, tenant.name)) fill(tenant, *tenants.Add());
  }
}

Status TenantAdmin::has_tenants() const {
  if (tenancy_ != nullptr) return {};
  return {Code::kFailedPrecondition, "this server has the default tenant only"};
}

Status TenantAdmin::CreateTenant(Call& call, const control::CreateTenantRequest& request,
                                 control::CreateTenantReply& reply) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  call.changed = request.name();
  if (!request.shared_id().empty()) {
    PHUB_RETURN_IF_ERROR(validate_tenant_name("shared_id", request.shared_id()));
  }
  PHUB_ASSIGN_OR_RETURN(Tenant created,
                        tenancy_->directory.create(request.name(), quotas_from(request.quotas())));
  if (!request.shared_id().empty()) {
    PHUB_ASSIGN_OR_RETURN(created, tenancy_->directory.share(created.name, request.shared_id()));
  }
  fill(created, *reply.mutable_tenant());
  return {};
}

Status TenantAdmin::ListTenants(Call& call, const control::ListTenantsRequest& /*request*/,
                                control::ListTenantsReply& reply) {
  list(call.caller, SIZE_MAX, *reply.mutable_tenants());
  return {};
}

Status TenantAdmin::InspectTenant(Call& call, const control::InspectTenantRequest& request,
                                  control::InspectTenantReply& reply) {
  const std::string name = namespace_of(call.caller, request.name());
  if (tenancy_ == nullptr || !can_see(call.caller, name)) return unknown_tenant(name);
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, tenancy_->directory.find(name));
  fill(tenant, *reply.mutable_tenant());
  for (const Token& token : tenancy_->tokens.list()) {
    const bool is_its = token.role == Role::kTenant && token.tenant == name;
    if (is_its) fill(token, *reply.add_tokens());
  }
  for (const JobView& job : table_.views.list()) {
    if (job.tenant == name) server::fill(job, Keys::kLeftOut, *reply.add_jobs());
  }
  return {};
}

Status TenantAdmin::SetTenant(Call& call, const control::SetTenantRequest& request,
                              control::SetTenantReply& reply) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  call.changed = request.name();
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, tenancy_->directory.find(request.name()));
  Quotas quotas = tenant.quotas;
  if (request.has_memory_mib()) quotas.memory_mib = request.memory_mib();
  if (request.has_connections()) quotas.connections = request.connections();
  if (request.has_jobs()) quotas.jobs = request.jobs();
  if (request.has_weight()) quotas.weight = request.weight();
  if (request.has_disk_mib()) quotas.disk_mib = request.disk_mib();
  PHUB_ASSIGN_OR_RETURN(Tenant changed, tenancy_->directory.set(tenant.name, quotas));
  if (request.has_shared_id()) {
    PHUB_ASSIGN_OR_RETURN(changed, tenancy_->directory.share(tenant.name, request.shared_id()));
  }
  fill(changed, *reply.mutable_tenant());
  return {};
}

Status TenantAdmin::DeleteTenant(Call& call, const control::DeleteTenantRequest& request,
                                 control::DeleteTenantReply& /*reply*/) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  call.changed = request.name();
  PHUB_ASSIGN_OR_RETURN(const Tenant tenant, tenancy_->directory.find(request.name()));
  const Usage usage = table_.usage.of(tenant.name);
  if (usage.jobs > 0 && !request.close_jobs()) {
    return {Code::kFailedPrecondition,
            "tenant \"" + tenant.name + "\" has " + std::to_string(usage.jobs) +
                " live jobs; close them first, or delete it with --close-jobs"};
  }
  PHUB_RETURN_IF_ERROR(tenancy_->directory.remove(tenant.name));
  // From here on nobody can join for it; what joined a moment ago ends too.
  tenancy_->tokens.forget_tenant(tenant.name);
  table_.life.close_all_of(tenant.id);
  return {};
}

Status TenantAdmin::CreateToken(Call& call, const control::CreateTokenRequest& request,
                                control::CreateTokenReply& reply) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  call.changed = (request.tenant().empty() ? request.role() : request.tenant()) + " token ";
  const auto role = parse_role(request.role().empty() ? "tenant" : request.role());
  if (!role || *role == Role::kWorker || *role == Role::kRack) {
    return {Code::kInvalidArgument,
            "role: \"" + printable(request.role(), 64) + "\" is none of admin, tenant, observer"};
  }
  std::optional<Tenant> owner;
  if (*role == Role::kTenant) {
    PHUB_ASSIGN_OR_RETURN(owner, tenancy_->directory.find(request.tenant()));
  } else if (!request.tenant().empty()) {
    return {Code::kInvalidArgument,
            "tenant: a token of role " + request.role() + " belongs to no tenant; leave it out"};
  }
  PHUB_ASSIGN_OR_RETURN(
      const NewToken created,
      tenancy_->tokens.create(*role, owner, request.label(), request.lifetime_seconds()));
  fill(created.token, *reply.mutable_info());
  reply.set_token(created.text);
  *call.changed += std::to_string(created.token.id);
  return {};
}

Status TenantAdmin::ListTokens(Call& /*call*/, const control::ListTokensRequest& request,
                               control::ListTokensReply& reply) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  for (const Token& token : tenancy_->tokens.list()) {
    if (!request.tenant().empty() && token.tenant != request.tenant()) continue;
    fill(token, *reply.add_tokens());
  }
  return {};
}

Status TenantAdmin::RevokeToken(Call& call, const control::RevokeTokenRequest& request,
                                control::RevokeTokenReply& /*reply*/) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  call.changed = "token " + std::to_string(request.token_id());
  return tenancy_->tokens.revoke(request.token_id());
}

Status TenantAdmin::ListAudit(Call& /*call*/, const control::ListAuditRequest& request,
                              control::ListAuditReply& reply) {
  PHUB_RETURN_IF_ERROR(has_tenants());
  const std::uint32_t count = request.count() == 0 ? kAuditsDefault : request.count();
  PHUB_ASSIGN_OR_RETURN(const auto records, tenancy_->audit.last(std::min(count, kAuditsMax)));
  for (const AuditRecord& record : records) {
    control::AuditEntry* const entry = reply.add_entries();
    entry->set_unix_milliseconds(record.unix_ms);
    entry->set_principal(record.principal);
    entry->set_action(record.action);
    entry->set_object(record.object);
    entry->set_outcome(record.outcome);
  }
  return {};
}

}  // namespace phub::server
