// The backends that every machine has.
#include <fcntl.h>
#include <netinet/in.h>

#include "tests/support/endpoint_pair.h"

namespace phub::transport {
namespace {

std::pair<UniqueFd, UniqueFd> loopback(int family) {
  const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = {};
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  }
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  PHUB_CHECK(::bind(listener.get(), generic, length) == 0, "bind to the loopback address");
  PHUB_CHECK(::listen(listener.get(), 1) == 0, "listen");
  ::getsockname(listener.get(), generic, &length);
  UniqueFd near(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PHUB_CHECK(::connect(near.get(), generic, length) == 0, "connect");
  UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ::fcntl(near.get(), F_SETFL, O_NONBLOCK);
  return {std::move(near), std::move(far)};
}

std::unique_ptr<EndpointPair> plain_pair(int family) {
  auto [near, far] = loopback(family);
  return tcp_pair(std::move(near), std::move(far));
}

std::unique_ptr<EndpointPair> encrypted_pair(int family) {
  auto [near, far] = loopback(family);
  return tcp_pair({std::move(near), sealed_stream(Role::kServer)},
                  {std::move(far), sealed_stream(Role::kWorker)});
}

}  // namespace

std::vector<NamedPair> endpoint_pairs() {
  return {{"shm", shm_pair},
          {"tcp over IPv4", [] { return plain_pair(AF_INET); }},
          {"tcp over IPv6", [] { return plain_pair(AF_INET6); }},
          {"encrypted tcp", [] { return encrypted_pair(AF_INET); }}};
}

}  // namespace phub::transport
