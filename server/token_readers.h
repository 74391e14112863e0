// Who may read the page's data and the metrics: whom a token makes an administrator or an observer,
// and everybody where no tokens are required. A tenant's token is not enough: both tell of all
// tenants.
#pragma once

#include <string>

#include "server/http/authorizer.h"
#include "server/tenants/access.h"

namespace phub::server {

class TokenReaders final : public Authorizer {
 public:
  // `access` outlives this.
  explicit TokenReaders(Access& access) : access_(access) {}

  bool may_read(std::string_view bearer_token) override {
    const auto caller = access_.authenticate({.token = std::string(bearer_token), .peer = "http"});
    return caller && (caller->role == Role::kAdmin || caller->role == Role::kObserver);
  }

 private:
  Access& access_;
};

}  // namespace phub::server
