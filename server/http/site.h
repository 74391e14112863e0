// What the HTTP server serves: the page and its files, /api/state, /api/records and /api/history
// for it, /metrics for Prometheus, /healthz (it answers) and /readyz (jobs may come) for
// supervisors.
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
#include "server/tenants/reader.h"

namespace phub::server {

// A file of server/http/page/, embedded into the binary by embed.cmake. Static storage.
struct Asset {
  std::string_view path;  // "/page.css"; "/" for index.html
  std::string_view content_type;
  std::string_view content;
};
std::span<const Asset> page_assets();

// What is answered to a reader: as much as it may see.
struct SiteSources {
  using Source = std::function<std::string(const Reader& reader)>;

  Source state_json;    // these three: messages of page.proto
  Source records_json;  // reads the disk
  Source history_json;
  Source metrics_text;  // Prometheus' text format
  // What who shows this bearer token ("" for none) may see. Nothing: it may not read.
  std::function<std::optional<Reader>(std::string_view bearer_token)> reads;
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
  explicit Site(SiteSources sources, SiteHosts hosts = {});

  // 200, 401 (an answer for readers only, and no right token), 404, 421 (asked by a name that is
  // not ours), or of /readyz 503.
  HttpReply reply_to(const HttpRequest& request);

 private:
  // Answers that were made just now, for the next who asks for the same.
  class Answers {
   public:
    Answers(SiteSources::Source source, std::chrono::milliseconds age_max)
        : source_(std::move(source)), age_max_(age_max) {}
    const std::string& to(const Reader& reader);

   private:
    struct Made {
      std::string text;
      std::chrono::steady_clock::time_point at;
    };
    const SiteSources::Source source_;
    const std::chrono::milliseconds age_max_;
    std::map<Reader, Made> made_;  // those that are not too old
  };

  bool is_ours(std::string_view host) const;
  // Null: there is nothing of that name for readers.
  Answers* answers_at(std::string_view path);

  const SiteSources sources_;
  const SiteHosts hosts_;
  Answers states_;
  Answers records_;
  Answers histories_;
};

}  // namespace phub::server
