// A small HTTP server for reading: GET and HEAD, no bodies, everything bounded.
//
// Has one thread of its own, on which it accepts, reads, asks the handler and writes; a handler
// takes milliseconds. A peer that is slow, silent, too long or not HTTP loses its connection by a
// deadline; when all connections are taken, the one that has waited longest for a request gives
// way. Created and destroyed by a control thread; the destructor waits for a handler that runs, for
// nothing else.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::server {

struct HttpOptions {
  std::string address = {};      // "IP:port"; port 0: a free one
  bool allow_plaintext = false;  // without TLS beyond the loopback interface too
  // PEM, the chain; with key_file: TLS, and only TLS. Read again when one of them changes.
  std::string certificate_file = {};
  std::string key_file = {};
  std::size_t connections_max = 64;
  std::chrono::milliseconds deadline{10'000};  // of a handshake, of a request's head, of a reply
};

// As the handler sees them: without sockets and Beast.
struct HttpRequest {
  std::string_view target;         // "/api/state?x=1"
  std::string_view authorization;  // the header's value; empty: none
  std::string_view host = {};      // likewise
};

struct HttpReply {
  unsigned status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";  // of static storage
  std::string body = {};
};

using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

class HttpServer {
 public:
  // Serves when it returns. Errors, each with field and cure: kInvalidArgument (not an IP address;
  // plaintext for other hosts that is not allowed; bad certificate or key), kAlreadyExists (the
  // port is in use), kUnavailable (no such address here).
  static Result<std::unique_ptr<HttpServer>> create(const HttpOptions& options,
                                                    HttpHandler handler);
  virtual ~HttpServer() = default;
  HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  virtual std::string address() const = 0;  // with the port that was picked
};

}  // namespace phub::server
