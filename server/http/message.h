// A request for reading, and the reply to it, as the site sees them: without sockets and Beast.
//
// Values; one thread.
#pragma once

#include <string>
#include <string_view>

namespace phub::server {

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

}  // namespace phub::server
