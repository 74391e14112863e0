// One connection to a server, which stays open between requests: an easy handle of libcurl.
//
// One thread at a time. Redirects are not followed: http_file.h decides on each.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"
#include "worker/data/formats/http/http_options.h"

namespace phub::data {

struct HttpRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;  // at least 1

  std::uint64_t last() const { return first + bytes - 1; }
  // "100-163"
  std::string text() const { return std::to_string(first) + '-' + std::to_string(last()); }
};

// What came back. Headers are as the server wrote them, or empty.
struct HttpAnswer {
  long status = 0;        // 0: no answer
  std::string failure;    // of the transfer, in words; empty: it is complete
  bool is_final = false;  // the failure would be the same at another try
  bool is_too_long = false;
  std::uint64_t bytes = 0;  // of the body, written to `into`
  std::string etag;         // a strong one, else empty
  std::string last_modified;
  std::string content_range;
  std::string redirect;  // an absolute URL
  std::chrono::seconds retry_after{0};
};

class HttpConnection {
 public:
  // Error: kResourceExhausted without memory.
  static Result<std::unique_ptr<HttpConnection>> create(const HttpOptions& options);

  // Asks for a part of the file at `url`. With an `etag`: only if the file still has it. Ends by
  // itself: see http_options.h. REQUIRES: into.size() == range.bytes.
  HttpAnswer get(const std::string& url, const HttpRange& range, const std::string& etag,
                 std::span<std::uint8_t> into);

 private:
  struct Ends {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  HttpConnection(CURL* handle, const HttpOptions& options) : handle_(handle), options_(options) {}
  bool set_up();
  std::string header(const char* name) const;
  void describe(CURLcode code, HttpAnswer& answer) const;

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

  std::unique_ptr<CURL, Ends> handle_;
  const HttpOptions options_;
  char error_[CURL_ERROR_SIZE] = {};
  // The request that runs has these.
  std::span<std::uint8_t> into_;
  std::uint64_t body_bytes_ = 0;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace phub::data
