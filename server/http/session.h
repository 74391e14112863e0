// One connection of the HTTP server: reads a request's head, asks the handler, writes the reply,
// and again while the peer keeps the connection.
//
// Owns itself through the callbacks that wait. The server's one thread.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <list>

#include "server/http/http_server.h"

namespace phub::server {

// What the server knows of a connection.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;
  virtual bool is_waiting() const = 0;  // for a request, of which nothing is answered yet
  virtual void close() = 0;             // it then ends by itself
};

struct SessionContext {
  HttpHandler handler;
  std::chrono::milliseconds deadline;
  std::list<HttpConnection*> connections;  // that are open, oldest first
};

// `context` outlives the connection; without `tls` it is plain HTTP.
void start_session(SessionContext& context, boost::beast::tcp_stream stream,
                   boost::asio::ssl::context* tls);

}  // namespace phub::server
