// Who may read what the HTTP server tells of jobs and cores.
//
// Implemented by whoever keeps the tokens; outlives the server. Called by the server's one thread.
#pragma once

#include <string_view>

namespace phub::server {

class Authorizer {
 public:
  virtual ~Authorizer() = default;
  // `bearer_token`: what followed "Authorization: Bearer "; empty when there was none.
  virtual bool may_read(std::string_view bearer_token) = 0;
};

// For a server without tokens.
class AllowAll final : public Authorizer {
 public:
  bool may_read(std::string_view /*bearer_token*/) override { return true; }
};

}  // namespace phub::server
