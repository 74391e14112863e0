#include "server/http/site.h"

#include <algorithm>
#include <string_view>

#include "server/http/assets.h"

namespace phub::server {
namespace {

// However many pages are open, the tables are asked this often at most.
constexpr std::chrono::milliseconds kStateAgeMax{200};
constexpr std::string_view kBearer = "Bearer ";

std::string_view token_of(std::string_view authorization) {
  if (!authorization.starts_with(kBearer)) return {};
  return authorization.substr(kBearer.size());
}

HttpReply not_authorized() {
  return {.status = 401,
          .body =
              "This needs a token, as `Authorization: Bearer TOKEN`: an observer's or an "
              "administrator's for everything, a tenant's for its own jobs. Whoever administers "
              "the server issues one.\n"};
}

}  // namespace

HttpReply Site::answer(const HttpRequest& request) {
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  const bool is_state = path == "/api/state";
  if (is_state || path == "/metrics") {
    const auto reader = authorizer_.reader_of(token_of(request.authorization));
    if (!reader) return not_authorized();
    if (is_state) return {.content_type = "application/json", .body = state(reader->tenant)};
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = sources_.metrics_text(reader->tenant)};
  }
  const auto assets = page_assets();
  const auto found = std::find_if(assets.begin(), assets.end(),
                                  [path](const Asset& asset) { return asset.path == path; });
  if (found != assets.end()) {
    return {.content_type = found->content_type, .body = std::string(found->content)};
  }
  return {.status = 404, .body = "There is / (the page), /api/state and /metrics.\n"};
}

const std::string& Site::state(const std::string& tenant) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(states_, [now](const auto& made) { return now - made.second.at > kStateAgeMax; });
  const auto found = states_.find(tenant);
  if (found != states_.end()) return found->second.state;
  return states_.emplace(tenant, Made{sources_.state_json(tenant), now}).first->second.state;
}

}  // namespace phub::server
