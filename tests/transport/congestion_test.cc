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

std::string after_connecting_here(const CongestionControl& control) {
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
  CHECK(control_of(near.get()) == control_of(far.get()));
  return control_of(near.get());
}

}  // namespace

TEST_CASE("auto means reno within a host, and the system's until it is known who is there") {
  const std::string system = control_of(tcp_socket().get());
  const CongestionControl automatic = CongestionControl::parse("auto").value();
  CHECK(after_connecting_here(automatic) == "reno");
  const UniqueFd unconnected = tcp_socket();  // stands for another host: it has no peer here
  automatic.prepare(unconnected.get());
  automatic.settle(unconnected.get());
  CHECK(control_of(unconnected.get()) == system);
}

TEST_CASE("system leaves the system's, a name sets it on both ends") {
  const std::string system = control_of(tcp_socket().get());
  CHECK(after_connecting_here(CongestionControl::parse("system").value()) == system);
  CHECK(after_connecting_here(CongestionControl::parse("reno").value()) == "reno");
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
