#include "server/rpc/authorizer.h"

#include <fmt/format.h>

#include <charconv>

namespace phub::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr std::string_view kTicketScheme = "Ticket ";
constexpr char kRetryDelayMs[] = "200";

// What a call's metadata say under `authorization`; empty: nothing.
std::string_view authorization_of(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end()) return {};
  return {found->second.data(), found->second.size()};
}

Actor actor_of(const Principal& caller) {
  return {.name = caller.name, .is_admin = caller.role == Role::kAdmin};
}

}  // namespace

std::optional<Ticket> ticket_of(const grpc::ServerContextBase& context) {
  std::string_view text = authorization_of(context);
  if (!text.starts_with(kTicketScheme)) return std::nullopt;
  text.remove_prefix(kTicketScheme.size());
  Ticket ticket;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ticket.job_id);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || !text.starts_with(':')) return Ticket{};
  ticket.nonce_hash = digest_of(text.substr(1));
  return ticket;
}

void ask_to_try_again(grpc::ServerContextBase& context) {
  context.AddTrailingMetadata(kRetryAfterMs, kRetryDelayMs);
}

Status CallRates::admit(const std::string& tenant, TokenBucket::Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  TokenBucket& rate =
      rates_.try_emplace(tenant, TokenBucket(per_second_, burst_, now)).first->second;
  if (rate.wait(now) > TokenBucket::Clock::duration::zero()) {
    return {
        Code::kResourceExhausted,
        fmt::format("tenant \"{}\" has made {} calls in a burst, and may make {} a second; call "
                    "less often",
                    tenant, burst_, per_second_)};
  }
  rate.take(now);
  return {};
}

std::optional<Credentials> Authorizer::credentials_of(
    const grpc::ServerContextBase& context) const {
  const std::optional<ControlPeer> peer = peers_.find(context.peer());
  if (!peer) return std::nullopt;
  Credentials credentials{.peer = peer->address};
  if (const std::string_view value = authorization_of(context); !value.empty()) {
    // Another scheme is a token that is wrong.
    credentials.token = value.starts_with(kScheme) ? value.substr(kScheme.size()) : "-";
  }
  if (peer->certificate) {
    credentials.has_certificate = true;
    credentials.certificate_unit = peer->certificate->unit;
    credentials.certificate_name = peer->certificate->name;
  }
  return credentials;
}

Result<Principal> Authorizer::authorize(const grpc::ServerContextBase* context, Right right,
                                        std::string_view action) const {
  if (tenancy_ == nullptr) return Principal{};
  const std::optional<Credentials> credentials = credentials_of(*context);
  if (!credentials) return Status(Code::kUnavailable, "the caller's connection has ended");
  PHUB_ASSIGN_OR_RETURN(Principal caller, tenancy_->access.authenticate(*credentials));
  const Status allowed = require(caller, right);
  if (!allowed.ok()) {
    if (right != Right::kRead) tenancy_->audit.record(actor_of(caller), action, "", allowed);
    return allowed;
  }
  if (caller.role == Role::kTenant && right != Right::kJoin) {
    PHUB_RETURN_IF_ERROR(rates_->admit(caller.tenant, TokenBucket::Clock::now()));
  }
  return caller;
}

Result<Principal> Authorizer::authorize_join(const grpc::ServerContextBase& context) const {
  const auto credentials = tenancy_ == nullptr ? std::nullopt : credentials_of(context);
  const auto known = credentials ? tenancy_->access.identify(*credentials) : std::nullopt;
  const bool is_rack = known && known->role == Role::kRack;
  return authorize(&context, is_rack ? Right::kJoinAsRack : Right::kJoin, "join");
}

std::optional<std::string> Authorizer::payer_of(const grpc::ServerContextBase& context) const {
  if (tenancy_ == nullptr) return "";
  const std::optional<Credentials> credentials = credentials_of(context);
  if (!credentials) return std::nullopt;
  const auto caller = tenancy_->access.identify(*credentials);
  if (!caller) return std::nullopt;
  return caller->role == Role::kTenant ? caller->tenant : "";
}

grpc::Status Authorizer::audited(const Principal& caller, std::string_view action,
                                 std::string_view object, const Status& outcome) const {
  if (tenancy_ != nullptr) tenancy_->audit.record(actor_of(caller), action, object, outcome);
  return to_grpc(outcome);
}

void Authorizer::count_refusal(const grpc::ServerContextBase* context,
                               const std::string& what) const {
  if (tenancy_ == nullptr) return;
  const std::optional<Credentials> credentials = credentials_of(*context);
  tenancy_->access.count_refusal(credentials ? credentials->peer : "gone", what);
}

}  // namespace phub::server
