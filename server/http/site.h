// What the HTTP server serves: the page and its files, /api/state for it, /metrics for Prometheus,
// /healthz (it answers) and /readyz (jobs may come) for supervisors.
//
// The files are for everybody: they say nothing of this server. The rest is for who may read it.
// Owned by the daemon; called by the HTTP server's one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_server.h"

namespace phub::server {

// A file of server/http/page/, embedded into the binary by embed.cmake. Static storage.
struct Asset {
  std::string_view path;  // "/page.css"; "/" for index.html
  std::string_view content_type;
  std::string_view content;
};
std::span<const Asset> page_assets();

// The first two are each for one tenant's view, or with "" for everything.
struct SiteSources {
  std::function<std::string(const std::string& tenant)> state_json;    // PageState of page.proto
  std::function<std::string(const std::string& tenant)> metrics_text;  // Prometheus' text format
  // Of whose jobs and cores who shows this bearer token ("" for none) may read: a tenant, or "" for
  // everything. Nothing: of nobody's.
  std::function<std::optional<std::string>(std::string_view bearer_token)> reads;
  // Why no job should be sent here, in a few words; empty: jobs may come.
  std::function<std::string()> not_ready = [] { return std::string(); };
};

// Whom a browser may take this server for.
struct SiteHosts {
  // Any name: who shows no token learns nothing, or TLS has proven the name. Otherwise a page of
  // somebody else's could have its own name resolved to this server and read it.
  bool any = true;
  std::vector<std::string> names = {};  // beside addresses and localhost
};

class Site {
 public:
  explicit Site(SiteSources sources, SiteHosts hosts = {})
      : sources_(std::move(sources)), hosts_(std::move(hosts)) {}

  // 200, 401 (an answer for readers only, and no right token), 404, 421 (asked by a name that is
  // not ours), or of /readyz 503.
  HttpReply reply_to(const HttpRequest& request);

 private:
  struct Made {
    std::string state;
    std::chrono::steady_clock::time_point at;
  };

  bool is_ours(std::string_view host) const;
  const std::string& state(const std::string& tenant);

  const SiteSources sources_;
  const SiteHosts hosts_;
  std::map<std::string, Made> states_;  // by tenant, those that are not too old
};

}  // namespace phub::server
