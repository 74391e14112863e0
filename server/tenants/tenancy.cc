#include "server/tenants/tenancy.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace phub::server {

Result<std::unique_ptr<Tenancy>> Tenancy::open(const TenancyOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto store, Store::open(options.state_folder));
  std::unique_ptr<Tenancy> tenancy(new Tenancy(std::move(store), options.tokens_required));
  PHUB_RETURN_IF_ERROR(tenancy->directory.load());
  PHUB_RETURN_IF_ERROR(tenancy->tokens.load());
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
  const std::string path = folder + "/admin.token";
  ::unlink(path.c_str());  // of a token that is no longer valid
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return errno_status("state_folder: cannot write " + path, Code::kPermissionDenied);
  PHUB_ASSIGN_OR_RETURN(const NewToken first, tokens.create(Role::kAdmin, "", "first", 0));
  const std::string line = first.text + "\n";
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return errno_status("state_folder: cannot write " + path, Code::kResourceExhausted);
  }
  audit.record("phub-server", "token create", "admin token " + std::to_string(first.token.id), {});
  spdlog::warn("event=admin_token file={} cure=\"copy it to a credentials' folder as `token`\"",
               path);
  return {};
}

}  // namespace phub::server
