// What the HTTP server serves to whom, without sockets.
#include "server/http/site.h"

#include <catch2/catch.hpp>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

std::optional<Reader> everybody(std::string_view /*bearer_token*/) { return Reader(); }

std::optional<Reader> with_tokens(std::string_view bearer_token) {
  if (bearer_token == "right") return Reader();
  if (bearer_token == "admin") return Reader{.sees_audit = true};
  if (bearer_token == "red" || bearer_token == "blue") {
    return Reader{.tenant = std::string(bearer_token)};
  }
  return std::nullopt;
}

SiteSources sources(decltype(SiteSources::reads) reads) {
  return {.state_json = [](const Reader& reader) { return "{" + reader.tenant + "}"; },
          .records_json =
              [](const Reader& reader) {
                return "records " + reader.tenant + (reader.sees_audit ? "audit" : "");
              },
          .history_json = [](const Reader& reader) { return "history " + reader.tenant; },
          .metrics_text = [](const Reader& reader) { return "phub_jobs 0\n" + reader.tenant; },
          .reads = std::move(reads)};
}

}  // namespace

TEST_CASE("the page, the state and the metrics each have their place and type") {
  Site site(sources(everybody));
  const HttpReply page = site.reply_to({.target = "/", .authorization = ""});
  CHECK(page.status == 200);
  CHECK_THAT(std::string(page.content_type), Contains("text/html"));
  CHECK_THAT(page.body, Contains("<title>PHub</title>"));
  CHECK(site.reply_to({.target = "/api/state?at=1", .authorization = ""}).body == "{}");
  CHECK(site.reply_to({.target = "/metrics", .authorization = ""}).body == "phub_jobs 0\n");
  for (const char* nowhere : {"", "*", "/index", "/../etc/passwd", "/api", "http://other/"}) {
    CHECK(site.reply_to({.target = nowhere, .authorization = ""}).status == 404);
  }
}

TEST_CASE("supervisors learn without a token whether the server answers and takes jobs") {
  std::string reason;
  SiteSources ready = sources(with_tokens);
  ready.not_ready = [&reason] { return reason; };
  Site site(ready);
  const auto ask = [&site](const char* target) {
    return site.reply_to({.target = target, .authorization = ""});
  };
  CHECK(ask("/healthz").status == 200);
  CHECK(ask("/readyz").status == 200);
  reason = "draining";
  CHECK(ask("/healthz").status == 200);
  CHECK(ask("/readyz").status == 503);
  CHECK_THAT(ask("/readyz").body, Contains("draining"));
}

TEST_CASE("where everybody may read, the server is asked by names of its own only") {
  Site site(sources(everybody), {.any = false, .names = {"rack1.example"}});
  const auto status = [&site](const char* host) {
    return site.reply_to({.target = "/metrics", .authorization = "", .host = host}).status;
  };
  for (const char* ours : {"127.0.0.1:7079", "10.0.0.7", "[::1]:7079", "localhost", "LOCALHOST:1",
                           "rack1.example:7079", ""}) {
    INFO(ours);
    CHECK(status(ours) == 200);
  }
  for (const char* other :
       {"evil.example", "rack1.example.evil.example", "127.0.0.1.evil.example",
        "localhost.evil.example:7079", "[::1", "[::1]evil.example", "x", ":7079"}) {
    INFO(other);
    CHECK(status(other) == 421);
  }
  Site any(sources(everybody));
  CHECK(any.reply_to({.target = "/metrics", .authorization = "", .host = "any.example"}).status ==
        200);
}

TEST_CASE("without the right token there are the page's files and nothing else") {
  Site site(sources(with_tokens));
  for (const char* target : {"/api/state", "/api/records", "/api/history", "/metrics"}) {
    for (const char* wrong :
         {"", "right", "Bearer ", "Bearer wrong", "Basic right", "bearerright"}) {
      CHECK(site.reply_to({.target = target, .authorization = wrong}).status == 401);
    }
    CHECK(site.reply_to({.target = target, .authorization = "Bearer right"}).status == 200);
  }
  CHECK(site.reply_to({.target = "/", .authorization = ""}).status == 200);
}

TEST_CASE("many pages ask for the state once, and for what is read from the disk more seldom") {
  using std::chrono::milliseconds;
  int asked = 0;
  SiteSources counted = sources(everybody);
  const auto count = [&asked](const Reader& /*reader*/) { return std::to_string(++asked); };
  counted.state_json = counted.records_json = counted.history_json = count;
  Site site(counted);
  for (const auto& [target, age_max] :
       {std::pair("/api/state", milliseconds(200)), std::pair("/api/records", milliseconds(5000)),
        std::pair("/api/history", milliseconds(1000))}) {
    INFO(target);
    asked = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) site.reply_to({.target = target, .authorization = ""});
    CHECK(asked <= 1 + (std::chrono::steady_clock::now() - start) / age_max);
  }
}

TEST_CASE("each tenant's token gets its own view, whoever asked just before") {
  Site site(sources(with_tokens));
  const auto body = [&](const char* target, const char* authorization) {
    return site.reply_to({.target = target, .authorization = authorization}).body;
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(body("/api/state", "Bearer right") == "{}");
    CHECK(body("/api/state", "Bearer red") == "{red}");
    CHECK(body("/api/state", "Bearer blue") == "{blue}");
    CHECK(body("/api/records", "Bearer right") == "records ");
    CHECK(body("/api/records", "Bearer admin") == "records audit");
    CHECK(body("/api/records", "Bearer red") == "records red");
    CHECK(body("/api/history", "Bearer blue") == "history blue");
    CHECK(body("/metrics", "Bearer right") == "phub_jobs 0\n");
    CHECK(body("/metrics", "Bearer red") == "phub_jobs 0\nred");
  }
}

TEST_CASE("every file that the page names is embedded, by its own path") {
  const std::regex reference("(?:src|href)=\"([^\"#]+)\"|from \"\\./([^\"]+)\"");
  Site site(sources(everybody));
  int references = 0;
  for (const Asset& asset : page_assets()) {
    const std::string content(asset.content);
    CHECK_FALSE(asset.content_type.empty());
    for (std::sregex_iterator it(content.begin(), content.end(), reference), end; it != end; ++it) {
      const std::string file = (*it)[1].matched ? (*it)[1].str() : (*it)[2].str();
      INFO(file);
      CHECK(file.find("//") == std::string::npos);
      CHECK(site.reply_to({.target = "/" + file, .authorization = ""}).status == 200);
      ++references;
    }
  }
  CHECK(references >= 8);
}

}  // namespace phub::server
