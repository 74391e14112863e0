// All that a daemon knows of its tenants and their credentials, in one place.
//
// Owned by the daemon; see the parts for who may call.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/access/access.h"
#include "server/access/audit.h"
#include "server/access/directory.h"
#include "server/access/tokens.h"
#include "server/state/store.h"

namespace phub::server {

struct TenancyOptions {
  std::string state_folder = {};  // empty: nothing survives the process
  bool tokens_required = false;
};

class Tenancy {
 public:
  // Where tokens are required and no administrator has one, writes one to state_folder/admin.token.
  // Errors: those of Store::open; kInvalidArgument where that token would have no place.
  static Result<std::unique_ptr<Tenancy>> open(const TenancyOptions& options);

  // For administrators who are locked out: writes a further admin token to the folder's
  // admin.token while no server runs there. Returns that file. Errors: as open, and kNotFound.
  static Result<std::string> reset_admin_token(const std::string& state_folder);

  const std::unique_ptr<Store> store;
  TenantDirectory directory;
  Tokens tokens;
  AuditLog audit;
  Access access;

 private:
  Tenancy(std::unique_ptr<Store> opened, bool tokens_required)
      : store(std::move(opened)),
        directory(*store),
        tokens(*store),
        audit(*store),
        access(tokens_required, tokens, audit) {}
  Status make_first_token(const std::string& folder);
  Status make_admin_token(const std::string& folder, const std::string& label);
};

}  // namespace phub::server
