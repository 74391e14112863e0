#include "server/rpc/tenants.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/rpc/status.h"
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

Result<Principal> TenantAdmin::admit_administrator(grpc::ServerContextBase* context,
                                                   std::string_view action) {
  if (tenancy_ != nullptr) return authorizer_.authorize(context, Right::kAdminister, action);
  return Status(Code::kFailedPrecondition, "this server has the default tenant only");
}

grpc::Status TenantAdmin::CreateTenant(grpc::ServerContextBase* context,
                                       const control::CreateTenantRequest* request,
                                       control::CreateTenantReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "tenant create"));
  const auto created = tenancy_->directory.create(request->name(), quotas_from(request->quotas()));
  if (created) fill(*created, *reply->mutable_tenant());
  return authorizer_.audited(caller, "tenant create", request->name(),
                             created ? Status() : created.error());
}

grpc::Status TenantAdmin::ListTenants(grpc::ServerContextBase* context,
                                      const control::ListTenantsRequest* /*request*/,
                                      control::ListTenantsReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, authorizer_.authorize(context, Right::kRead));
  if (tenancy_ == nullptr) return grpc::Status::OK;
  for (const Tenant& tenant : tenancy_->directory.list()) {
    if (can_see(caller, tenant.name)) fill(tenant, *reply->add_tenants());
  }
  return grpc::Status::OK;
}

grpc::Status TenantAdmin::InspectTenant(grpc::ServerContextBase* context,
                                        const control::InspectTenantRequest* request,
                                        control::InspectTenantReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, authorizer_.authorize(context, Right::kRead));
  const std::string name = namespace_of(caller, request->name());
  if (tenancy_ == nullptr || !can_see(caller, name)) return to_grpc(unknown_tenant(name));
  const auto tenant = tenancy_->directory.find(name);
  if (!tenant) return to_grpc(tenant.error());
  fill(*tenant, *reply->mutable_tenant());
  for (const Token& token : tenancy_->tokens.list()) {
    const bool is_its = token.role == Role::kTenant && token.tenant == name;
    if (is_its) fill(token, *reply->add_tokens());
  }
  for (const JobView& job : table_.views.list()) {
    if (job.tenant == name) server::fill(job, Keys::kLeftOut, *reply->add_jobs());
  }
  return grpc::Status::OK;
}

grpc::Status TenantAdmin::SetTenant(grpc::ServerContextBase* context,
                                    const control::SetTenantRequest* request,
                                    control::SetTenantReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "tenant set"));
  const auto set = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const Tenant tenant, tenancy_->directory.find(request->name()));
    Quotas quotas = tenant.quotas;
    if (request->has_memory_mib()) quotas.memory_mib = request->memory_mib();
    if (request->has_connections()) quotas.connections = request->connections();
    if (request->has_jobs()) quotas.jobs = request->jobs();
    if (request->has_weight()) quotas.weight = request->weight();
    if (request->has_disk_mib()) quotas.disk_mib = request->disk_mib();
    PHUB_ASSIGN_OR_RETURN(const Tenant changed, tenancy_->directory.set(tenant.name, quotas));
    fill(changed, *reply->mutable_tenant());
    return {};
  };
  return authorizer_.audited(caller, "tenant set", request->name(), set());
}

Status TenantAdmin::delete_tenant(const control::DeleteTenantRequest& request) {
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

grpc::Status TenantAdmin::DeleteTenant(grpc::ServerContextBase* context,
                                       const control::DeleteTenantRequest* request,
                                       control::DeleteTenantReply* /*reply*/) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "tenant delete"));
  return authorizer_.audited(caller, "tenant delete", request->name(), delete_tenant(*request));
}

Status TenantAdmin::create_token(const control::CreateTokenRequest& request,
                                 control::CreateTokenReply& reply) {
  const auto role = parse_role(request.role().empty() ? "tenant" : request.role());
  if (!role || *role == Role::kWorker) {
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
  return {};
}

grpc::Status TenantAdmin::CreateToken(grpc::ServerContextBase* context,
                                      const control::CreateTokenRequest* request,
                                      control::CreateTokenReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "token create"));
  const Status created = create_token(*request, *reply);
  const std::string id = created.ok() ? std::to_string(reply->info().token_id()) : "";
  return authorizer_.audited(
      caller, "token create",
      (request->tenant().empty() ? request->role() : request->tenant()) + " token " + id, created);
}

grpc::Status TenantAdmin::ListTokens(grpc::ServerContextBase* context,
                                     const control::ListTokensRequest* request,
                                     control::ListTokensReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "token list"));
  for (const Token& token : tenancy_->tokens.list()) {
    if (!request->tenant().empty() && token.tenant != request->tenant()) continue;
    fill(token, *reply->add_tokens());
  }
  return grpc::Status::OK;
}

grpc::Status TenantAdmin::RevokeToken(grpc::ServerContextBase* context,
                                      const control::RevokeTokenRequest* request,
                                      control::RevokeTokenReply* /*reply*/) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "token revoke"));
  return authorizer_.audited(caller, "token revoke", "token " + std::to_string(request->token_id()),
                             tenancy_->tokens.revoke(request->token_id()));
}

grpc::Status TenantAdmin::ListAudit(grpc::ServerContextBase* context,
                                    const control::ListAuditRequest* request,
                                    control::ListAuditReply* reply) {
  PHUB_CALLER_OR_RETURN(const Principal caller, admit_administrator(context, "audit"));
  const std::uint32_t count = request->count() == 0 ? kAuditsDefault : request->count();
  const auto records = tenancy_->audit.last(std::min(count, kAuditsMax));
  if (!records) return to_grpc(records.error());
  for (const AuditRecord& record : *records) {
    control::AuditEntry* const entry = reply->add_entries();
    entry->set_unix_milliseconds(record.unix_ms);
    entry->set_principal(record.principal);
    entry->set_action(record.action);
    entry->set_object(record.object);
    entry->set_outcome(record.outcome);
  }
  return grpc::Status::OK;
}

}  // namespace phub::server
