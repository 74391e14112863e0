#include "server/http/site.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string_view>

namespace phub::server {
namespace {

// However many pages are open, the tables are asked this often at most, the disk this often.
constexpr std::chrono::milliseconds kStateAgeMax{200};
constexpr std::chrono::milliseconds kRecordsAgeMax{5000};
constexpr std::chrono::milliseconds kHistoryAgeMax{1000};
constexpr std::string_view kBearer = "Bearer ";

std::string_view token_of(std::string_view authorization) {
  if (!authorization.starts_with(kBearer)) return {};
  return authorization.substr(kBearer.size());
}

// Of a Host header: without its port and brackets, in small letters. Empty: it is not one.
std::string name_of(std::string_view host) {
  std::string_view rest = host;
  std::string name;
  if (host.starts_with('[')) {
    const std::size_t end = std::min(host.find(']'), host.size());
    name = host.substr(1, end - 1);
    rest = host.substr(std::min(end + 1, host.size()));
    if (end == host.size()) return {};
  } else {
    name = host.substr(0, host.find(':'));
    rest = host.substr(name.size());
  }
  if (!rest.empty() && rest.front() != ':') return {};
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

bool is_address(const std::string& name) {
  in6_addr any{};
  return ::inet_pton(AF_INET, name.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &any) == 1;
}

HttpReply not_authorized() {
  return {.status = 401,
          .body =
              "This needs a token, as `Authorization: Bearer TOKEN`: an observer's or an "
              "administrator's for everything, a tenant's for its own jobs. Whoever administers "
              "the server issues one.\n"};
}

}  // namespace

Site::Site(SiteSources sources, SiteHosts hosts)
    : sources_(std::move(sources)),
      hosts_(std::move(hosts)),
      states_(sources_.state_json, kStateAgeMax),
      records_(sources_.records_json, kRecordsAgeMax),
      histories_(sources_.history_json, kHistoryAgeMax) {}

bool Site::is_ours(std::string_view host) const {
  if (hosts_.any || host.empty()) return true;  // without a name: no browser
  const std::string name = name_of(host);
  return is_address(name) || name == "localhost" ||
         std::find(hosts_.names.begin(), hosts_.names.end(), name) != hosts_.names.end();
}

HttpReply Site::reply_to(const HttpRequest& request) {
  if (!is_ours(request.host)) {
    return {.status = 421,
            .body =
                "This server is not asked by that name: use its address, localhost, or a name "
                "in its http_hosts.\n"};
  }
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    const std::string reason = sources_.not_ready();
    if (reason.empty()) return {.body = "ready\n"};
    return {.status = 503, .body = reason + "\n"};
  }
  Answers* const answers = answers_at(path);
  if (answers != nullptr || path == "/metrics") {
    const auto reader = sources_.reads(token_of(request.authorization));
    if (!reader) return not_authorized();
    if (answers != nullptr) {
      return {.content_type = "application/json", .body = answers->to(*reader)};
    }
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = sources_.metrics_text(*reader)};
  }
  const auto assets = page_assets();
  const auto found = std::find_if(assets.begin(), assets.end(),
                                  [path](const Asset& asset) { return asset.path == path; });
  if (found != assets.end()) {
    return {.content_type = found->content_type, .body = std::string(found->content)};
  }
  return {.status = 404,
          .body =
              "There is / (the page), /api/state, /api/records, /api/history, /metrics, /healthz "
              "and /readyz.\n"};
}

Site::Answers* Site::answers_at(std::string_view path) {
  if (path == "/api/state") return &states_;
  if (path == "/api/records") return &records_;
  return path == "/api/history" ? &histories_ : nullptr;
}

const std::string& Site::Answers::to(const Reader& reader) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(made_, [&](const auto& made) { return now - made.second.at > age_max_; });
  const auto found = made_.find(reader);
  if (found != made_.end()) return found->second.text;
  return made_.emplace(reader, Made{source_(reader), now}).first->second.text;
}

}  // namespace phub::server
