// An HTTP server whose every answer a test writes itself, and the answers of a right one.
//
// It has a thread for each connection; the test's function is called by all of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"

namespace phub::data {

struct Asked {
  std::string head;    // the request line and the headers
  std::string target;  // "/x?y"
  std::uint64_t first = 0, bytes = 0;

  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

struct Reply {
  std::string text;     // with its status line and headers
  bool closes = false;  // the connection, behind the text
  bool stalls = false;  // nothing follows until the other end closes
};

class RangeServer {
 public:
  using Handler = std::function<Reply(const Asked&)>;

  explicit RangeServer(Handler handler);
  ~RangeServer();
  RangeServer(const RangeServer&) = delete;
  RangeServer& operator=(const RangeServer&) = delete;

  // "http://WHO127.0.0.1:PORT" and `target`.
  std::string url(const std::string& target, const std::string& who = "") const;
  int connections() const { return connections_.load(); }

 private:
  void accept_all();
  void serve(int fd) const;
  // Waits for bytes of the connection. False: it is over, or the server is.
  bool receive(int fd, std::string& text) const;

  const Handler handler_;
  UniqueFd stop_, listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::vector<std::thread> threads_;  // of the acceptor, until it ended
  std::thread acceptor_;
};

// An answer with a status alone.
inline std::string status_only(int status, const std::string& headers = "") {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 0\r\n" + headers + "\r\n";
}

inline std::string content_range(std::uint64_t first, std::uint64_t bytes, std::uint64_t total) {
  return "Content-Range: bytes " + std::to_string(first) + '-' + std::to_string(first + bytes - 1) +
         '/' + std::to_string(total) + "\r\n";
}

// A part with what headers and body a test wants.
inline std::string part(const std::string& headers, const std::string& body) {
  return "HTTP/1.1 206 x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "\r\n" + body;
}

// What a right server answers.
inline std::string right_part(const std::string& file, const Asked& asked,
                              const std::string& headers = "ETag: \"1\"\r\n") {
  if (asked.bytes == 0) return "HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n";
  return part(headers + content_range(asked.first, asked.bytes, file.size()),
              file.substr(asked.first, asked.bytes));
}

}  // namespace phub::data
