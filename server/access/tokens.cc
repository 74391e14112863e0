#include "server/access/tokens.h"

#include <fmt/format.h>

#include <charconv>

namespace phub::server {
namespace {

constexpr std::string_view kPrefix = "phub-";
constexpr std::uint64_t kLifetimeMax = 100ULL * 365 * 24 * 3600;

}  // namespace

Status Tokens::load() {
  PHUB_ASSIGN_OR_RETURN(const std::vector<Token> stored, store_.tokens());
  const std::lock_guard lock(mutex_);
  for (const Token& token : stored) tokens_[token.id] = token;
  return {};
}

Result<NewToken> Tokens::create(Role role, const std::optional<Tenant>& owner,
                                const std::string& label, std::uint64_t lifetime_s,
                                const Publish& publish) {
  if (!label.empty()) PHUB_RETURN_IF_ERROR(validate_tenant_name("label", label));
  if (role == Role::kWorker || role == Role::kRack) {
    return Status(Code::kInvalidArgument, "role: tokens are for admin, tenant or observer");
  }
  if (lifetime_s > kLifetimeMax) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("lifetime_seconds: {}, at most {} (100 years) are allowed; 0: for ever",
                    lifetime_s, std::uint64_t{kLifetimeMax}));
  }
  PHUB_ASSIGN_OR_RETURN(const std::string secret, random_secret());
  const std::int64_t now = clock_();
  // Until it is seen nobody forgets its tenant's tokens: it is forgotten with them.
  const std::lock_guard change(change_mutex_);
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t id, store_.next_token_id());
  const Token token{
      .id = id,
      .role = role,
      .tenant_id = owner ? owner->id : 0,
      .tenant = owner ? owner->name : "",
      .label = label,
      .hash = digest_of(secret),
      .created_unix_s = now,
      .expires_unix_s = lifetime_s == 0 ? 0 : now + static_cast<std::int64_t>(lifetime_s)};
  NewToken made{.token = token, .text = fmt::format("{}{}-{}", kPrefix, id, secret)};
  if (publish) PHUB_RETURN_IF_ERROR(publish(made.text));
  PHUB_RETURN_IF_ERROR(store_.add_token(token));
  const std::lock_guard lock(mutex_);
  tokens_[id] = token;
  return made;
}

Status Tokens::revoke(std::uint64_t id) {
  const std::lock_guard change(change_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (!tokens_.contains(id)) {
      return {Code::kNotFound,
              fmt::format("token {} is not known here; `phubctl tenant token list` shows all", id)};
    }
  }
  PHUB_RETURN_IF_ERROR(store_.revoke_token(id));
  const std::lock_guard lock(mutex_);
  tokens_.at(id).is_revoked = true;  // tokens go under change_mutex_ only
  return {};
}

void Tokens::forget_tenant(const std::string& tenant) {
  const std::lock_guard change(change_mutex_);
  const std::lock_guard lock(mutex_);
  std::erase_if(tokens_, [&](const auto& entry) {
    return entry.second.role == Role::kTenant && entry.second.tenant == tenant;
  });
}

std::vector<Token> Tokens::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Token> tokens;
  for (const auto& [id, token] : tokens_) tokens.push_back(token);
  return tokens;
}

bool Tokens::is_live(const Token& token) const {
  return !token.is_revoked && (token.expires_unix_s == 0 || clock_() < token.expires_unix_s);
}

bool Tokens::has_live(Role role) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, token] : tokens_) {
    if (token.role == role && is_live(token)) return true;
  }
  return false;
}

std::optional<Token> Tokens::find(std::string_view text) const {
  std::uint64_t id = 0;
  std::string_view secret;
  if (text.starts_with(kPrefix)) {
    text.remove_prefix(kPrefix.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error == std::errc() && digits < text.size() && text[digits] == '-') {
      secret = text.substr(digits + 1);
    }
  }
  const Digest shown = digest_of(secret);
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(id);
  const bool is_known = found != tokens_.end();
  const bool is_right = is_same(is_known ? found->second.hash : Digest{}, shown);
  if (!is_known || !is_right || secret.empty() || !is_live(found->second)) return std::nullopt;
  return found->second;
}

}  // namespace phub::server
