#include "server/control_service_gate.h"

#include "common/rpc_credentials.h"

namespace phub::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";

Credentials credentials_of(const grpc::ServerContextBase& context) {
  Credentials credentials{.peer = context.peer()};
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find("authorization"); found != metadata.end()) {
    const std::string_view value(found->second.data(), found->second.size());
    // Another scheme is a token that is wrong.
    credentials.token = value.starts_with(kScheme) ? value.substr(kScheme.size()) : "-";
  }
  if (const auto certificate = peer_certificate(context)) {
    credentials.has_certificate = true;
    credentials.certificate_unit = certificate->unit;
    credentials.certificate_name = certificate->name;
  }
  return credentials;
}

Actor actor_of(const Principal& caller) {
  return {.name = caller.name, .is_admin = caller.role == Role::kAdmin};
}

}  // namespace

Result<Principal> Gate::admit(const grpc::ServerContextBase* context, Right right,
                              std::string_view action) const {
  if (tenancy_ == nullptr) return Principal{};
  PHUB_ASSIGN_OR_RETURN(Principal caller, tenancy_->access.authenticate(credentials_of(*context)));
  const Status allowed = require(caller, right);
  if (!allowed.ok()) {
    if (right != Right::kRead) tenancy_->audit.record(actor_of(caller), action, "", allowed);
    return allowed;
  }
  return caller;
}

grpc::Status Gate::audited(const Principal& caller, std::string_view action,
                           std::string_view object, const Status& outcome) const {
  if (tenancy_ != nullptr) tenancy_->audit.record(actor_of(caller), action, object, outcome);
  return to_grpc(outcome);
}

void Gate::count_refusal(const grpc::ServerContextBase* context, const std::string& what) const {
  if (tenancy_ != nullptr) tenancy_->access.count_refusal(context->peer(), what);
}

}  // namespace phub::server
