// What a connection's congestion control becomes, by name and by where the peer is.
#include "common/transport/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "common/base/unique_fd.h"

namespace phub::transport {
namespace {

std::string control_of(int socket) {
  std::array<char, 16> name = {};
  socklen_t bytes = name.size();
  REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) == 0);
  return name.data();
}

UniqueFd tcp_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Of the worker's socket, once both are connected.
template <typename Ask>
auto after_connecting_here(const CongestionControl& control, Ask ask) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd listener = tcp_socket();
  control.prepare(listener.get());
  REQUIRE(::bind(listener.get(), generic, bytes) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), generic, &bytes) == 0);
  const UniqueFd near = tcp_socket();
  control.prepare(near.get());
  REQUIRE(::connect(near.get(), generic, bytes) == 0);
  const UniqueFd far(::accept(listener.get(), nullptr, nullptr));
  control.settle(near.get());
  control.settle(far.get());
  CHECK(ask(near.get()) == ask(far.get()));
  return ask(near.get());
}

int unsent_limit_of(int socket) {
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size) == 0);
  return bytes;
}

}  // namespace

TEST_CASE("auto means reno within a host, and the system's until it is known who is there") {
  const std::string system = control_of(tcp_socket().get());
  const CongestionControl automatic = CongestionControl::parse("auto").value();
  CHECK(after_connecting_here(automatic, control_of) == "reno");
  const UniqueFd unconnected = tcp_socket();  // stands for another host: it has no peer here
  automatic.prepare(unconnected.get());
  automatic.settle(unconnected.get());
  CHECK(control_of(unconnected.get()) == system);
}

TEST_CASE("system leaves the system's, a name sets it on both ends") {
  const std::string system = control_of(tcp_socket().get());
  CHECK(after_connecting_here(CongestionControl::parse("system").value(), control_of) == system);
  CHECK(after_connecting_here(CongestionControl::parse("reno").value(), control_of) == "reno");
}

TEST_CASE("between hosts the kernel holds little that is unsent, whatever the control") {
  for (const char* name : {"auto", "system", "reno"}) {
    const CongestionControl control = CongestionControl::parse(name).value();
    const UniqueFd socket = tcp_socket();  // stands for another host: it has no peer here
    control.prepare(socket.get());
    const int before = unsent_limit_of(socket.get());
    CHECK(before != kUnsentBytes);
    control.settle(socket.get());
    CHECK(unsent_limit_of(socket.get()) == kUnsentBytes);
    CHECK(after_connecting_here(control, unsent_limit_of) == before);
  }
}

TEST_CASE("buffers are bounded between hosts only, and only where it was asked for") {
  const auto bytes_of = [](int option) {
    return [option](int socket) {
      int bytes = 0;
      socklen_t size = sizeof(bytes);
      REQUIRE(::getsockopt(socket, SOL_SOCKET, option, &bytes, &size) == 0);
      return bytes;
    };
  };
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    const auto bytes = bytes_of(option);
    CongestionControl control = CongestionControl::parse("system").value();
    const UniqueFd socket = tcp_socket();  // stands for another host: it has no peer here
    const int before = bytes(socket.get());
    const int within_host = after_connecting_here(control, bytes);
    control.settle(socket.get());
    CHECK(bytes(socket.get()) == before);
    control.bound_buffers(32);
    control.settle(socket.get());
    CHECK(bytes(socket.get()) == 2 * 32 * 1024);  // Linux doubles it, for its own
    CHECK(after_connecting_here(control, bytes) == within_host);
  }
}

TEST_CASE("a bound leaves room for two segments, which may be large") {
  const int segment = 32'000;
  const UniqueFd socket = tcp_socket();  // stands for another host: it has no peer here
  REQUIRE(::setsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)) == 0);
  CongestionControl control = CongestionControl::parse("system").value();
  control.bound_buffers(8);
  control.settle(socket.get());
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    REQUIRE(::getsockopt(socket.get(), SOL_SOCKET, option, &bytes, &size) == 0);
    CHECK(bytes == 2 * 2 * segment);  // Linux doubles it, for its own
  }
}

TEST_CASE("a control that the kernel does not offer is refused with those that it does") {
  for (const char* name : {"bbq", ""}) {
    const auto parsed = CongestionControl::parse(name);
    REQUIRE(!parsed);
    CHECK(parsed.error().code() == Code::kInvalidArgument);
    CHECK_THAT(parsed.error().message(),
               Catch::Contains("tcp_congestion_control") && Catch::Contains("reno"));
  }
}

}  // namespace phub::transport
