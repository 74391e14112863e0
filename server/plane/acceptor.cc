#include "server/plane/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/rpc/address.h"
#include "common/transport/descriptors.h"

namespace phub::server {
namespace {

Status listen_error(const std::string& address, int error) {
  const std::string what = "data_address: cannot listen on " + address;
  switch (error) {
    case EADDRINUSE:
      return {Code::kAlreadyExists,
              what +
                  ": the port is in use; stop its owner (`ss -ltnp` shows it), or set "
                  "data_address (--data) to another port, or to port 0 for a free one"};
    case EADDRNOTAVAIL:
      return {Code::kUnavailable,
              what + ": this machine has no such address; `ip address` shows those it has"};
    case EACCES:
      return {Code::kPermissionDenied,
              what + ": ports below 1024 need privileges; choose a higher one"};
    default:
      errno = error;
      return errno_status(what, Code::kInvalidArgument);
  }
}

}  // namespace

Acceptor::Acceptor(const AcceptorOptions& options, boost::asio::io_context& context,
                   Admission& admission)
    : options_(options),
      handshakes_{.io = context,
                  .admission = admission,
                  .drops = drops_,
                  .congestion_control = options.congestion_control,
                  .encrypt_tcp = options.encrypt_tcp,
                  .first_word = options.first_word,
                  .deadline = options.deadline} {}

Result<std::unique_ptr<Acceptor>> Acceptor::create(const AcceptorOptions& options,
                                                   boost::asio::io_context& context,
                                                   Admission& admission) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(options, context, admission));
  if (!options.tcp_address.empty()) PHUB_RETURN_IF_ERROR(acceptor->listen_tcp());
  if (!options.shm_socket.empty()) {
    PHUB_ASSIGN_OR_RETURN(UniqueFd listener, transport::listen_abstract(options.shm_socket));
    acceptor->open(acceptor->unix_, std::move(listener), true);
  }
  return acceptor;
}

Status Acceptor::listen_tcp() {
  PHUB_ASSIGN_OR_RETURN(const Address address, parse_address(options_.tcp_address));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return {Code::kInvalidArgument,
            "data_address " + options_.tcp_address + ": " + ::gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("data socket", Code::kResourceExhausted);
  options_.congestion_control.prepare(socket.get());
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // inherited
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return listen_error(options_.tcp_address, errno);
  }
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  tcp_port_ =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  open(tcp_, std::move(socket), false);
  return {};
}

void Acceptor::open(std::optional<Entrance>& entrance, UniqueFd listener, bool shm) {
  entrance.emplace(handshakes_.io, std::move(listener), options_.places, shm,
                   [this, &entrance](Door::Guest guest) {
                     start_handshake(handshakes_, *entrance, std::move(guest));
                   });
  entrance->door.open();
}

}  // namespace phub::server
