// What goes wrong at this end before a server is called.
#include "common/connect/data_connection.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace phub::client
