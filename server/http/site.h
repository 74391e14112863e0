// What the HTTP server serves: the page and its files, /api/state for it, /metrics for Prometheus.
//
// The files are for everybody: they say nothing of this server. The rest is for readers that the
// Authorizer lets in. Owned by the daemon; called by the HTTP server's one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "server/http/authorizer.h"
#include "server/http/message.h"

namespace phub::server {

struct SiteSources {
  std::function<std::string()> state_json;    // PageState of proto/page.proto
  std::function<std::string()> metrics_text;  // Prometheus' text format
};

class Site {
 public:
  // `authorizer` outlives the site.
  Site(SiteSources sources, Authorizer& authorizer)
      : sources_(std::move(sources)), authorizer_(authorizer) {}

  // 200, 401 (an answer for readers only, and no right token) or 404.
  HttpReply answer(const HttpRequest& request);

 private:
  const std::string& state();

  const SiteSources sources_;
  Authorizer& authorizer_;
  std::string state_;  // as it was at state_made_
  std::chrono::steady_clock::time_point state_made_;
};

}  // namespace phub::server
