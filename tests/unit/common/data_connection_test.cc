// What goes wrong at this end before a server is called.
#include "common/connect/data_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>

#include "common/base/unique_fd.h"

namespace phub::client {
namespace {

using Catch::Matchers::Contains;

// No file can be opened while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(lowest >= 0);
    ::close(lowest);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest), .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

// A server's links to other racks meet it too, beside other tenants' jobs.
TEST_CASE("a connection for which there is no descriptor is an error that says so") {
  JoinInfo joined;
  joined.host = "127.0.0.1";
  joined.tcp_port = 1;
  const NoDescriptors none;
  const auto stream = open_tcp({.joined = &joined, .timeout = std::chrono::milliseconds(100)});
  REQUIRE_FALSE(stream);
  CHECK(stream.error().code() == Code::kResourceExhausted);
  CHECK_THAT(stream.error().message(),
             Contains("127.0.0.1 port 1") && Contains("Too many open files"));
}

// Says a byte now and then, for as long as its visitor stays.
class SlowServer {
 public:
  SlowServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener_.get(), any, length) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    REQUIRE(::getsockname(listener_.get(), any, &length) == 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~SlowServer() { thread_.join(); }
  SlowServer(const SlowServer&) = delete;
  SlowServer& operator=(const SlowServer&) = delete;

  std::uint16_t port = 0;

 private:
  void serve() {
    const UniqueFd visitor(::accept(listener_.get(), nullptr, nullptr));
    pollfd gone{.fd = visitor.get(), .events = POLLRDHUP, .revents = 0};
    constexpr int kPauseMs = 10;
    while (::poll(&gone, 1, kPauseMs) == 0) {
      if (::send(visitor.get(), "z", 1, MSG_NOSIGNAL) != 1) return;
    }
  }

  UniqueFd listener_;
  std::thread thread_;
};

// Else it would hold a server's stop, or keep it from telling other racks that it lives.
TEST_CASE("a handshake that comes byte by byte has no more time than one that does not come") {
  SlowServer server;
  JoinInfo joined;
  joined.host = "127.0.0.1";
  joined.tcp_port = server.port;
  const auto stream = open_tcp({.joined = &joined, .timeout = std::chrono::milliseconds(50)});
  REQUIRE_FALSE(stream);
  CHECK(stream.error().code() == Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace phub::client
