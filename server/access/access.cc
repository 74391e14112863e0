#include "server/access/access.h"

#include <fmt/format.h>

namespace phub::server {
namespace {

constexpr std::chrono::seconds kAuditInterval{1};

std::string described(const Token& token) {
  return token.label.empty() ? fmt::format("token {}", token.id)
                             : fmt::format("token {} ({})", token.id, token.label);
}

}  // namespace

std::optional<Principal> Access::by_certificate(const Credentials& credentials) const {
  if (!credentials.has_certificate) {
    if (tokens_required_) return std::nullopt;
    return Principal{.role = Role::kAdmin, .name = "anybody at " + credentials.peer};
  }
  const auto role = parse_role(credentials.certificate_unit);
  const bool is_enough = role == Role::kAdmin || role == Role::kObserver || role == Role::kRack ||
                         (role == Role::kWorker && !tokens_required_);
  if (!is_enough) return std::nullopt;
  return Principal{.role = *role,
                   .tenant = {},
                   .name = fmt::format("certificate {}", credentials.certificate_name)};
}

std::optional<Principal> Access::identify(const Credentials& credentials) const {
  if (credentials.token.empty()) return by_certificate(credentials);
  const auto token = tokens_.find(credentials.token);
  if (!token) return std::nullopt;
  return Principal{.role = token->role,
                   .tenant = token->tenant,
                   .tenant_id = token->tenant_id,
                   .name = described(*token)};
}

Result<Principal> Access::authenticate(const Credentials& credentials) {
  if (auto principal = identify(credentials)) return std::move(*principal);
  if (!credentials.token.empty()) {
    count_refusal(credentials.peer, "token");
    return Status(Code::kUnauthenticated,
                  "the token is not accepted: it is wrong, has expired or was revoked; ask an "
                  "administrator for another (`phubctl tenant token create`)");
  }
  count_refusal(credentials.peer, "no credentials");
  if (credentials.has_certificate) {
    return Status(Code::kUnauthenticated,
                  fmt::format("certificate {} (OU \"{}\") is not enough here; show a token too: "
                              "put it into the credentials' folder as `token`",
                              credentials.certificate_name, credentials.certificate_unit));
  }
  return Status(Code::kUnauthenticated,
                "this server wants a token; give a folder that has one with --credentials DIR, or "
                "security.token_file");
}

void Access::count_refusal(const std::string& peer, const std::string& what) {
  const std::uint64_t count = refusals_.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto now = std::chrono::steady_clock::now();
  std::uint64_t unaudited = 0;
  {
    const std::lock_guard lock(mutex_);
    if (audited_ != 0 && now - last_audit_ < kAuditInterval) return;
    last_audit_ = now;
    unaudited = count - audited_;
    audited_ = count;
  }
  audit_.record(
      {.name = peer}, "authenticate", what,
      {Code::kUnauthenticated, fmt::format("refused; {} since the last record", unaudited)});
}

}  // namespace phub::server
