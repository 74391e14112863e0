#include "worker/data/formats/http/connection.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "common/base/log_value.h"
#include "common/base/version.h"
#include "worker/data/formats/http/answers.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 64 << 10U;
// Another answer is read so far, so that its connection can be kept.
constexpr std::uint64_t kMaxOtherBytes = 64 << 10U;
constexpr std::size_t kMaxTagBytes = 1024;
constexpr long kReceiveBytes = 128 << 10U;

// Loads SSL_CERT_FILE and SSL_CERT_DIR, or else the system's certificates.
CURLcode trust_as_openssl_does(CURL*, void* context, void*) {
  const int loaded = SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(context));
  return loaded == 1 ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

bool is_final(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_LOGIN_DENIED:
    case CURLE_BAD_FUNCTION_ARGUMENT:
      return true;
    default:
      return false;
  }
}

// A tag that a request can repeat: "..." without spaces or control characters. Not W/"...".
bool is_strong_tag(const std::string& tag) {
  return tag.size() >= 2 && tag.size() <= kMaxTagBytes && tag.front() == '"' && tag.back() == '"' &&
         std::all_of(tag.begin() + 1, tag.end() - 1, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte > 0x20 && byte != 0x7F && c != '"';
         });
}

}  // namespace

Result<std::unique_ptr<HttpConnection>> HttpConnection::create(const HttpOptions& options) {
  // Once in the process, by the first thread that comes.
  static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* const handle = kStarted == CURLE_OK ? curl_easy_init() : nullptr;
  if (handle != nullptr) {
    std::unique_ptr<HttpConnection> connection(new HttpConnection(handle, options));
    if (connection->set_up()) return connection;
  }
  return Status(Code::kResourceExhausted,
                "libcurl cannot be used: it has no memory, or was built without TLS by OpenSSL");
}

bool HttpConnection::set_up() {
  CURL* const handle = handle_.get();
  bool is_right = true;
  const auto set = [&](CURLoption option, auto value) {
    is_right = is_right && curl_easy_setopt(handle, option, value) == CURLE_OK;
  };
  const auto stall_s = std::chrono::ceil<std::chrono::seconds>(options_.stall);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  set(CURLOPT_CAINFO, static_cast<char*>(nullptr));
  set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
  set(CURLOPT_SSL_CTX_FUNCTION, &trust_as_openssl_does);
  set(CURLOPT_USERAGENT, (std::string("phub-worker/") + kVersion).c_str());
  set(CURLOPT_MAXCONNECTS, 2L);  // a redirect may lead to another server
  set(CURLOPT_BUFFERSIZE, kReceiveBytes);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(kSlowestBytesPerSecond));
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall_s.count()));
  set(CURLOPT_ERRORBUFFER, error_);
  set(CURLOPT_HEADERFUNCTION, &HttpConnection::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &HttpConnection::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  return is_right;
}

HttpAnswer HttpConnection::get(const std::string& url, const HttpRange& range,
                               const std::string& etag, std::span<std::uint8_t> into) {
  CURL* const handle = handle_.get();
  into_ = into;
  body_bytes_ = header_bytes_ = 0;
  error_[0] = '\0';
  HttpAnswer answer;
  const std::unique_ptr<curl_slist, Ends> headers(
      etag.empty() ? nullptr : curl_slist_append(nullptr, ("If-Match: " + etag).c_str()));
  // The longest that a transfer takes that is not too slow.
  const std::uint64_t deadline_ms =
      static_cast<std::uint64_t>((options_.connect + options_.stall).count()) +
      range.bytes / (kSlowestBytesPerSecond / 1000);
  CURLcode code = curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  const auto set = [&](CURLoption option, auto value) {
    if (code == CURLE_OK) code = curl_easy_setopt(handle, option, value);
  };
  set(CURLOPT_RANGE, range.text().c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::min<std::uint64_t>(deadline_ms, INT_MAX)));
  if (!etag.empty() && headers == nullptr) code = CURLE_OUT_OF_MEMORY;
  if (code == CURLE_OK) code = curl_easy_perform(handle);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, nullptr);
  describe(code, answer);
  return answer;
}

void HttpConnection::describe(CURLcode code, HttpAnswer& answer) const {
  CURL* const handle = handle_.get();
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer.status);
  answer.is_too_long = answer.status == kPartStatus && body_bytes_ > into_.size();
  answer.bytes = std::min<std::uint64_t>(body_bytes_, into_.size());
  // The body of another answer is not wanted: that it was broken off is no failure.
  const bool is_unwanted = code == CURLE_WRITE_ERROR && answer.status != kPartStatus;
  if (code != CURLE_OK && !is_unwanted) {
    answer.is_final = is_final(code);
    answer.failure = one_line(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
    if (header_bytes_ > kMaxHeaderBytes) {
      answer.failure =
          "the server's headers have more than " + std::to_string(kMaxHeaderBytes) + " bytes";
      answer.is_final = true;
    }
  }
  answer.etag = header("etag");
  if (!is_strong_tag(answer.etag)) answer.etag.clear();
  answer.last_modified = header("last-modified");
  answer.content_range = header("content-range");
  const char* redirect = nullptr;
  curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) answer.redirect = redirect;
  curl_off_t seconds = 0;
  curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &seconds);
  answer.retry_after = std::chrono::seconds(std::clamp<curl_off_t>(seconds, 0, 86'400));
}

std::string HttpConnection::header(const char* name) const {
  curl_header* found = nullptr;
  const CURLHcode code = curl_easy_header(handle_.get(), name, 0, CURLH_HEADER, -1, &found);
  return code == CURLHE_OK ? found->value : std::string();
}

std::size_t HttpConnection::on_header(char*, std::size_t size, std::size_t count, void* self) {
  auto& connection = *static_cast<HttpConnection*>(self);
  connection.header_bytes_ += size * count;
  return connection.header_bytes_ > kMaxHeaderBytes ? 0 : size * count;
}

std::size_t HttpConnection::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& connection = *static_cast<HttpConnection*>(self);
  const std::size_t bytes = size * count;
  const std::uint64_t begin = connection.body_bytes_;
  connection.body_bytes_ += bytes;
  long status = 0;
  curl_easy_getinfo(connection.handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != kPartStatus) return connection.body_bytes_ > kMaxOtherBytes ? 0 : bytes;
  if (connection.body_bytes_ > connection.into_.size()) return 0;
  std::memcpy(connection.into_.data() + begin, data, bytes);
  return bytes;
}

}  // namespace phub::data
