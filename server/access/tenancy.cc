#include "server/access/tenancy.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <optional>

#include "common/base/log_value.h"
#include "server/process/private_file.h"
#include "server/state/whole_file.h"

namespace phub::server {

Result<std::unique_ptr<Tenancy>> Tenancy::open(const TenancyOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto store, Store::open(options.state_folder));
  std::unique_ptr<Tenancy> tenancy(new Tenancy(std::move(store), options.tokens_required));
  PHUB_RETURN_IF_ERROR(tenancy->directory.load());
  PHUB_RETURN_IF_ERROR(tenancy->tokens.load());
  if (!options.state_folder.empty()) {
    warn_of_others("token_is_open", options.state_folder + "/admin.token");
  }
  if (options.tokens_required && !tenancy->tokens.has_live(Role::kAdmin)) {
    PHUB_RETURN_IF_ERROR(tenancy->make_first_token(options.state_folder));
  }
  return tenancy;
}

Status Tenancy::make_first_token(const std::string& folder) {
  if (folder.empty()) {
    return {Code::kInvalidArgument,
            "state_folder: is needed where security.tokens is \"required\": the first admin token "
            "is written there; set it, or set tokens to \"off\""};
  }
  return make_admin_token(folder, "first");
}

// The file first and the token after it: whoever has the file of a process that was killed between
// them has nothing, and the next start writes another. The other way round the token would be there
// and nobody would know it.
Status Tenancy::make_admin_token(const std::string& folder, const std::string& label) {
  const std::string path = folder + "/admin.token";
  const auto publish = [&](const std::string& text) {
    const Status written = write_whole_file(path, text + "\n");
    const bool is_full = written.code() == Code::kResourceExhausted;
    if (!is_full || !store->give_back_reserve()) return written;
    return write_whole_file(path, text + "\n");
  };
  const auto made = tokens.create(Role::kAdmin, std::nullopt, label, 0, publish);
  if (!made) return made.error().with_context("state_folder");
  audit.record({.name = "phub-server", .is_admin = true}, "token create",
               "admin token " + std::to_string(made->token.id), {});
  spdlog::warn("event=admin_token file={} cure=\"copy it to a credentials' folder as `token`\"",
               log_value(path));
  return {};
}

Result<std::string> Tenancy::reset_admin_token(const std::string& state_folder) {
  if (state_folder.empty()) {
    return Status(Code::kInvalidArgument, "state_folder: say which, by --state or in the file");
  }
  std::error_code error;
  if (!std::filesystem::exists(state_folder + "/state.sqlite", error)) {
    return Status(Code::kNotFound, "state_folder: there is no state.sqlite in " + state_folder);
  }
  PHUB_ASSIGN_OR_RETURN(const auto tenancy, open({.state_folder = state_folder}));
  PHUB_RETURN_IF_ERROR(tenancy->make_admin_token(state_folder, "reset"));
  return state_folder + "/admin.token";
}

}  // namespace phub::server
