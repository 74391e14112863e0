#include "server/doctor/peer/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <memory>

#include "common/transport/descriptors.h"
#include "common/transport/tcp/congestion.h"

namespace phub::doctor {
namespace {

Result<UniqueFd> connect_one(const addrinfo& address, const std::string& who,
                             const Limits& limits) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("socket", Code::kUnavailable);
  PHUB_ASSIGN_OR_RETURN(const auto control, transport::CongestionControl::parse("auto"));
  control.prepare(socket.get());
  const int on = 1;  // our messages are small
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  transport::set_timeout(socket.get(), limits.connect);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    const int error = errno;
    PHUB_RETURN_IF_ERROR(check_stop(limits));
    if (error == EINPROGRESS) return Status(Code::kDeadlineExceeded, who + " is silent");
    errno = error;
    return errno_status(who, Code::kUnavailable);
  }
  control.settle(socket.get());
  return socket;
}

}  // namespace

Result<Address> parse_peer(const std::string& text) {
  const bool has_port = text.rfind(':') != std::string::npos && text.back() != ']';
  return parse_address(has_port ? text : text + ":" + std::to_string(kDefaultPort));
}

Result<UniqueFd> connect_to(const Address& address, const Limits& limits) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return Status(Code::kNotFound, address.host + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Status last(Code::kNotFound, address.host + " has no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    auto socket = connect_one(*one, to_string(address), limits);
    if (socket || socket.error().code() == Code::kAborted) return socket;
    last = socket.error();
  }
  return last;
}

}  // namespace phub::doctor
