// Who may read the page's data and the metrics: whom a token makes an administrator or an observer,
// and everybody where no tokens are required; with a tenant's token what is its own.
#pragma once

#include <string>

#include "server/access/access.h"
#include "server/http/read_access.h"

namespace phub::server {

class TokenReaders final : public ReadAccess {
 public:
  // `access` outlives this.
  explicit TokenReaders(Access& access) : access_(access) {}

  std::optional<Reader> reader_of(std::string_view bearer_token) override {
    const auto caller = access_.authenticate({.token = std::string(bearer_token), .peer = "http"});
    if (!caller || !has_right(caller->role, Right::kRead)) return std::nullopt;
    return Reader{.tenant = caller->role == Role::kTenant ? caller->tenant : ""};
  }

 private:
  Access& access_;
};

}  // namespace phub::server
