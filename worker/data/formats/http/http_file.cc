#include "worker/data/formats/http/http_file.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "common/base/log_value.h"
#include "common/base/splitmix.h"
#include "common/text/url.h"
#include "worker/data/formats/http/answers.h"
#include "worker/data/formats/http/connection_pool.h"
#include "worker/data/formats/http/content_range.h"

namespace phub::data {
namespace {

constexpr int kMaxRedirects = 5;

// Half of `pause` to all of it, so that many readers do not come back at once.
std::chrono::milliseconds with_jitter(std::chrono::milliseconds pause) {
  static std::atomic<std::uint64_t> count{0};
  const auto now =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  const auto most = static_cast<std::uint64_t>(pause.count());
  const std::uint64_t random = splitmix64(now, count.fetch_add(1, std::memory_order_relaxed));
  return std::chrono::milliseconds(most - random % (most / 2 + 1));
}

// Which file it was when it was opened. Empty: the server did not say.
struct Version {
  std::uint64_t bytes = 0;
  std::string etag;
  std::string last_modified;
};

// What a try came to.
struct Outcome {
  Status status;
  bool may_try_again = false;
  std::chrono::milliseconds pause{0};  // at least, before the next try
  Version version{};                   // where the status is OK
};

class HttpFile final : public WebFile {
 public:
  HttpFile(std::string url, const HttpOptions& options, std::shared_ptr<ConnectionPool> connections)
      : url_(std::move(url)), options_(options), connections_(std::move(connections)) {}

  // Once, before any read.
  Status open();

  std::string name() const override { return shown_url(url_); }
  std::uint64_t bytes() const override { return version_.bytes; }
  Status read(std::uint64_t offset, std::span<std::uint8_t> into) const override;
  const std::string& version() const override {
    return version_.etag.empty() ? version_.last_modified : version_.etag;
  }

 private:
  // Tries until an answer is right or the tries are over.
  Result<Version> fetch(const HttpRange& range, std::span<std::uint8_t> into) const;
  Outcome try_once(HttpConnection& connection, const HttpRange& range,
                   std::span<std::uint8_t> into) const;
  Outcome judge(const HttpAnswer& answer, const HttpRange& range) const;
  Outcome judge_part(const HttpAnswer& answer, const HttpRange& range) const;
  // How the version differs from the one that was opened; empty: not.
  std::string difference(const Version& now) const;
  Status has_changed(const std::string& how) const;

  const std::string url_;
  const HttpOptions options_;
  bool is_open_ = false;
  Version version_;
  const std::shared_ptr<ConnectionPool> connections_;
};

Status HttpFile::open() {
  std::uint8_t first = 0;
  PHUB_ASSIGN_OR_RETURN(version_, fetch({.first = 0, .bytes = 1}, {&first, 1}));
  is_open_ = true;
  return {};
}

Status HttpFile::read(std::uint64_t offset, std::span<std::uint8_t> into) const {
  if (offset > bytes() || bytes() - offset < into.size()) return ends_within(offset, into.size());
  if (into.empty()) return {};
  const auto version = fetch({.first = offset, .bytes = into.size()}, into);
  if (version || version.error().code() == Code::kDataLoss) return version.error();
  // Nothing is wrong with this part of the file alone: no other part is to take its place.
  return {Code::kUnavailable, version.error().message()};
}

Result<Version> HttpFile::fetch(const HttpRange& range, std::span<std::uint8_t> into) const {
  const auto failed = [&](const Status& status, std::uint32_t tries) {
    return Status(status.code(), name() + ", bytes " + range.text() + ", after " +
                                     std::to_string(tries) + (tries == 1 ? " try: " : " tries: ") +
                                     status.message());
  };
  auto connection = connections_->take();
  if (!connection) return failed(connection.error(), 0);
  auto pause = options_.first_pause;
  for (std::uint32_t tries = 1;; ++tries, pause *= 2) {
    Outcome outcome = try_once(**connection, range, into);
    if (outcome.status.ok()) return std::move(outcome.version);
    if (!outcome.may_try_again || tries >= options_.tries) return failed(outcome.status, tries);
    std::this_thread::sleep_for(
        std::max(with_jitter(pause), std::min(outcome.pause, options_.retry_after_max)));
  }
}

Outcome HttpFile::try_once(HttpConnection& connection, const HttpRange& range,
                           std::span<std::uint8_t> into) const {
  std::string url = url_;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    HttpAnswer answer = connection.get(url, range, version_.etag, into);
    if (!is_redirect(answer.status) || !answer.failure.empty() || answer.redirect.empty()) {
      return judge(answer, range);
    }
    const std::string why = redirect_refusal(url, answer.redirect);
    if (!why.empty()) return {.status = {Code::kInvalidArgument, why}};
    url = std::move(answer.redirect);
  }
  return {.status = {Code::kInvalidArgument, "the server redirects more than " +
                                                 std::to_string(kMaxRedirects) +
                                                 " times; give the file's own URL"}};
}

Outcome HttpFile::judge(const HttpAnswer& answer, const HttpRange& range) const {
  const std::string status = "status " + std::to_string(answer.status);
  if (answer.is_too_long) {
    return {.status = {Code::kInvalidArgument, "the server sends more than the " +
                                                   std::to_string(range.bytes) +
                                                   " bytes; look at the server"}};
  }
  if (answer.is_final) {
    return {.status = {Code::kInvalidArgument,
                       answer.failure + "; correct the URL, or name the authority of the server's "
                                        "certificate in SSL_CERT_FILE"}};
  }
  if (!answer.failure.empty()) {
    return {.status = {Code::kUnavailable, answer.failure}, .may_try_again = true};
  }
  if (answer.status == kPartStatus) return judge_part(answer, range);
  if (is_passing(answer.status)) {
    return {.status = {Code::kUnavailable, "the server answers with " + status},
            .may_try_again = true,
            .pause = answer.retry_after};
  }
  if (is_open_ && (answer.status == kChangedStatus || answer.status == kNoSuchRangeStatus)) {
    return {.status = has_changed(status)};
  }
  return {.status = refusal_of(answer.status)};
}

Outcome HttpFile::judge_part(const HttpAnswer& answer, const HttpRange& range) const {
  const auto part = parse_content_range(answer.content_range);
  if (!part) {
    return {.status = {Code::kInvalidArgument,
                       "the server answers with Content-Range \"" + one_line(answer.content_range) +
                           "\", which tells no part of a file and its size; look at the server"}};
  }
  const Version now{part->total, answer.etag, answer.last_modified};
  const std::string how = is_open_ ? difference(now) : "";
  if (!how.empty()) return {.status = has_changed(how)};
  if (part->first != range.first || part->last != range.last()) {
    return {.status = {Code::kInvalidArgument,
                       "the server sends bytes " + std::to_string(part->first) + '-' +
                           std::to_string(part->last) + " in their place; look at the server"}};
  }
  if (answer.bytes < range.bytes) {
    return {.status = {Code::kUnavailable, "the answer ends after " + std::to_string(answer.bytes) +
                                               " of " + std::to_string(range.bytes) + " bytes"},
            .may_try_again = true};
  }
  return {.status = {}, .version = now};
}

std::string HttpFile::difference(const Version& now) const {
  const auto differs = [](const std::string& then, const std::string& given) {
    return one_line(then) + " then, " + (given.empty() ? "nothing" : one_line(given)) + " now";
  };
  if (now.bytes != version_.bytes) {
    return std::to_string(version_.bytes) + " bytes then, " + std::to_string(now.bytes) + " now";
  }
  if (!version_.etag.empty()) {
    return now.etag == version_.etag ? "" : "ETag " + differs(version_.etag, now.etag);
  }
  if (now.last_modified == version_.last_modified) return {};
  return "Last-Modified " + differs(version_.last_modified, now.last_modified);
}

Status HttpFile::has_changed(const std::string& how) const {
  return {Code::kDataLoss, "the file has changed since the set was opened (" + how +
                               "); start again, and leave the file alone in between"};
}

}  // namespace

WebFiles::WebFiles(const HttpOptions& options)
    : options_(options), connections_(std::make_shared<ConnectionPool>(options)) {}
WebFiles::~WebFiles() = default;

Result<std::unique_ptr<WebFile>> WebFiles::open(const std::string& url) const {
  if (!is_web_url(url)) {
    return Status(Code::kInvalidArgument,
                  (is_url(url) ? shown_url(url) : one_line(url)) +
                      " is no URL of http or https; give one, or a folder on this machine");
  }
  auto file = std::make_unique<HttpFile>(url, options_, connections_);
  PHUB_RETURN_IF_ERROR(file->open());
  return std::unique_ptr<WebFile>(std::move(file));
}

Result<std::unique_ptr<ByteSource>> open_http_file(const std::string& url,
                                                   const HttpOptions& options) {
  PHUB_ASSIGN_OR_RETURN(std::unique_ptr<WebFile> file, WebFiles(options).open(url));
  return std::unique_ptr<ByteSource>(std::move(file));
}

}  // namespace phub::data
