// The tokens that people and workers show: "phub-ID-SECRET". Only a hash of the secret is kept.
//
// Owned by the daemon; any control thread. Look-ups never wait for the store.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/state/store.h"
#include "server/tenants/tenant.h"

namespace phub::server {

struct NewToken {
  Token token;
  std::string text;  // told once, to whoever asked for it
};

class Tokens {
 public:
  using UnixSeconds = std::function<std::int64_t()>;

  // `store` outlives the tokens.
  explicit Tokens(
      Store& store, UnixSeconds clock = [] { return std::time(nullptr); })
      : store_(store), clock_(std::move(clock)) {}

  // What the store has. REQUIRES: before any other call.
  Status load();

  // Called with the text of a token that is not valid yet; it is not made where this fails.
  using Publish = std::function<Status(const std::string& text)>;

  // `lifetime_s` 0: for ever. `owner` is of role kTenant only. Errors: kFailedPrecondition if the
  // owner was deleted meanwhile.
  Result<NewToken> create(Role role, const std::optional<Tenant>& owner, const std::string& label,
                          std::uint64_t lifetime_s, const Publish& publish = {});
  // Errors: kNotFound.
  Status revoke(std::uint64_t id);
  void forget_tenant(const std::string& tenant);  // whose tokens are gone from the store

  std::vector<Token> list() const;  // by id
  bool has_live(Role role) const;
  bool is_live(const Token& token) const;

  // The token that `text` is, if it is one that is neither expired nor revoked. Takes as long
  // whatever is wrong with the secret.
  std::optional<Token> find(std::string_view text) const;

 private:
  Store& store_;
  const UnixSeconds clock_;
  std::mutex change_mutex_;  // one change at a time; taken before mutex_
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Token> tokens_;
};

}  // namespace phub::server
