// What the HTTP server serves: the page and its files, /api/state for it, /metrics for Prometheus.
//
// The files are for everybody: they say nothing of this server. The rest is for readers that the
// Authorizer lets in. Owned by the daemon; called by the HTTP server's one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "server/http/authorizer.h"
#include "server/http/message.h"

namespace phub::server {

// Each for one tenant's view, or with "" for everything.
struct SiteSources {
  std::function<std::string(const std::string& tenant)> state_json;    // PageState of page.proto
  std::function<std::string(const std::string& tenant)> metrics_text;  // Prometheus' text format
};

class Site {
 public:
  // `authorizer` outlives the site.
  Site(SiteSources sources, Authorizer& authorizer)
      : sources_(std::move(sources)), authorizer_(authorizer) {}

  // 200, 401 (an answer for readers only, and no right token) or 404.
  HttpReply answer(const HttpRequest& request);

 private:
  struct Made {
    std::string state;
    std::chrono::steady_clock::time_point at;
  };

  const std::string& state(const std::string& tenant);

  const SiteSources sources_;
  Authorizer& authorizer_;
  std::map<std::string, Made> states_;  // by tenant, those that are not too old
};

}  // namespace phub::server
