#include "server/phubctl/doctor/peer/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "common/transport/tcp/congestion.h"

namespace phub::phubctl::doctor {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr int kBacklog = 64;

Result<Addresses> resolve(const Address& address, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return Status(Code::kNotFound, address.host + ": " + ::gai_strerror(error));
  }
  return Addresses(found, ::freeaddrinfo);
}

Result<UniqueFd> make_socket(const addrinfo& address) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_status("socket", Code::kUnavailable);
  PHUB_ASSIGN_OR_RETURN(const auto control, transport::CongestionControl::parse("auto"));
  control.prepare(socket.get());
  const int on = 1;  // our messages are small
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

Result<UniqueFd> connect_one(const addrinfo& address, const std::string& who,
                             const Limits& limits) {
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, make_socket(address));
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno_status(who, Code::kUnavailable);
    PHUB_RETURN_IF_ERROR(
        wait_for(socket.get(), POLLOUT, Clock::now() + limits.connect, limits, who));
    int error = 0;
    socklen_t bytes = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    if (error != 0) return errno_status(who, Code::kUnavailable);
  }
  PHUB_ASSIGN_OR_RETURN(const auto control, transport::CongestionControl::parse("auto"));
  control.settle(socket.get());
  return socket;
}

Address to_address(const sockaddr_storage& name, socklen_t bytes) {
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&name), bytes, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {.host = "an unknown address", .port = 0};
  }
  return {.host = host.data(), .port = static_cast<std::uint16_t>(std::stoul(port.data()))};
}

}  // namespace

Result<Address> parse_peer(const std::string& text) {
  const bool has_port = text.rfind(':') != std::string::npos && text.back() != ']';
  return parse_address(has_port ? text : text + ":" + std::to_string(kDefaultPort));
}

Result<UniqueFd> connect_to(const Address& address, const Limits& limits) {
  PHUB_ASSIGN_OR_RETURN(const Addresses found, resolve(address, 0));
  Status last(Code::kNotFound, address.host + " has no address");
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    auto socket = connect_one(*one, to_string(address), limits);
    if (socket || socket.error().code() == Code::kAborted) return socket;
    last = socket.error();
  }
  return last;
}

Result<UniqueFd> listen_at(const Address& address) {
  const std::string where = to_string(address);
  PHUB_ASSIGN_OR_RETURN(const Addresses found, resolve(address, AI_PASSIVE));
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, make_socket(*found));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return errno_status(
        "--listen " + where + " (an address of this host and a free port; 0: any free one)",
        errno == EADDRINUSE ? Code::kAlreadyExists : Code::kInvalidArgument);
  }
  return socket;
}

Address own_address(int socket) {
  sockaddr_storage name = {};
  socklen_t bytes = sizeof(name);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &bytes);
  return to_address(name, bytes);
}

Address peer_address(int socket) {
  sockaddr_storage name = {};
  socklen_t bytes = sizeof(name);
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&name), &bytes);
  return to_address(name, bytes);
}

}  // namespace phub::phubctl::doctor
