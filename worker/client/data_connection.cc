#include "worker/client/data_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "common/transport/descriptors.h"
#include "common/transport/handshake.h"

namespace phub::client {

using transport::Challenge;
using transport::Hello;
using transport::Kind;
using transport::Proof;
using transport::Role;
using transport::Verdict;
using transport::VerdictCode;
using transport::verbs::Introduction;

namespace {

void set_timeout(int socket, std::chrono::milliseconds timeout) {
  const timeval value = {.tv_sec = timeout.count() / 1000,
                         .tv_usec = (timeout.count() % 1000) * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}

Status set_nonblocking(int socket) {
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_status("fcntl of a data connection");
  }
  return {};
}

template <typename T>
Status receive(int socket, T& message, std::vector<UniqueFd>& descriptors) {
  auto bytes = std::as_writable_bytes(std::span(&message, 1));
  while (!bytes.empty()) {
    const long got = transport::receive_with_descriptors(socket, bytes, descriptors);
    if (got == 0) return {Code::kUnavailable, "the server closed the connection"};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return errno_status("waiting for the server's handshake", Code::kDeadlineExceeded);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

struct Welcome {
  Challenge challenge;
  Verdict verdict;
  std::vector<UniqueFd> descriptors;
};

Result<Welcome> shake_hands(int socket, const Hello& hello, const Secret& secret,
                            std::span<const int> descriptors,
                            const Introduction* introduction = nullptr) {
  Welcome welcome;
  PHUB_RETURN_IF_ERROR(
      transport::send_with_descriptors(socket, std::as_bytes(std::span(&hello, 1)), {}));
  PHUB_RETURN_IF_ERROR(receive(socket, welcome.challenge, welcome.descriptors));
  const Challenge& challenge = welcome.challenge;
  const Proof proof{transport::proof_of(Role::kWorker, secret, hello, challenge)};
  PHUB_RETURN_IF_ERROR(
      transport::send_with_descriptors(socket, std::as_bytes(std::span(&proof, 1)), descriptors));
  if (introduction != nullptr) {
    PHUB_RETURN_IF_ERROR(
        transport::send_with_descriptors(socket, std::as_bytes(std::span(introduction, 1)), {}));
  }
  PHUB_RETURN_IF_ERROR(receive(socket, welcome.verdict, welcome.descriptors));
  const bool is_proven = transport::equal_constant_time(
      welcome.verdict.digest, transport::proof_of(Role::kServer, secret, hello, challenge));
  if (welcome.verdict.code == VerdictCode::kRefused) {
    return Status(Code::kPermissionDenied,
                  is_proven ? "this worker's secret has expired: it connected too long after its "
                              "join (join_secret_lifetime_ms of the server)"
                            : "the server refused this worker's secret");
  }
  if (!is_proven) {
    return Status(Code::kPermissionDenied, "the server does not know the secret: not our server?");
  }
  const VerdictCode code = welcome.verdict.code;
  if (code == VerdictCode::kNotEncrypted || code == VerdictCode::kEncrypted) {
    return Status(Code::kFailedPrecondition,
                  std::string("the data port wants streams that are ") +
                      (code == VerdictCode::kEncrypted ? "plain" : "encrypted") +
                      ", and the join told otherwise: is it that server's? Its option is "
                      "security.encrypt_data");
  }
  if (code != VerdictCode::kWelcome) {
    return Status(Code::kAborted,
                  "the core cannot take this connection, or this worker is connected already");
  }
  return welcome;
}

Hello hello_of(const DataTarget& target, Kind kind) {
  Hello hello;
  hello.kind = kind;
  hello.job_id = target.joined->job_id;
  hello.epoch = target.joined->epoch;
  hello.worker = target.joined->worker_index;
  hello.core = target.core;
  hello.nonce = transport::random_nonce();
  return hello;
}

Result<UniqueFd> connect_tcp(const DataTarget& target) {
  const std::string port = std::to_string(target.joined->tcp_port);
  const std::string where = target.joined->host + " port " + port;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(target.joined->host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return Status(Code::kUnavailable, where + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Status status;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) continue;
    set_timeout(socket.get(), target.timeout);  // also bounds connect
    target.congestion_control.prepare(socket.get());
    const int on = 1;  // the messages of the handshake are small
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0) {
      target.congestion_control.settle(socket.get());
      return socket;
    }
    status = errno_status(
        "connecting to the data port " + where + " (is data_address reachable from here?)",
        Code::kUnavailable);
  }
  return status;
}

}  // namespace

Result<transport::TcpStream> open_tcp(const DataTarget& target) {
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, connect_tcp(target));
  const Secret& secret = target.joined->secret;
  Hello hello = hello_of(target, Kind::kTcp);
  hello.encrypted = target.joined->encrypts_data ? 1 : 0;
  PHUB_ASSIGN_OR_RETURN(const Welcome welcome, shake_hands(socket.get(), hello, secret, {}));
  PHUB_RETURN_IF_ERROR(set_nonblocking(socket.get()));
  transport::TcpStream stream(std::move(socket));
  if (hello.encrypted != 0) {
    const auto keys = transport::stream_keys(secret, hello, welcome.challenge);
    PHUB_ASSIGN_OR_RETURN(stream.sealed, transport::SealedStream::create(keys, Role::kWorker));
  }
  return stream;
}

Status open_verbs(const DataTarget& target, transport::VerbsConnection& connection) {
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, connect_tcp(target));
  PHUB_ASSIGN_OR_RETURN(Welcome welcome, shake_hands(socket.get(), hello_of(target, Kind::kVerbs),
                                                     target.joined->secret, {}, &connection.own));
  PHUB_RETURN_IF_ERROR(receive(socket.get(), connection.peer, welcome.descriptors));
  PHUB_RETURN_IF_ERROR(set_nonblocking(socket.get()));
  connection.socket = std::move(socket);
  return {};
}

Result<transport::ShmConnection> open_shm(const DataTarget& target, const SharedMemory& memory,
                                          std::uint32_t capacity) {
  const std::size_t bytes = transport::channel_bytes(capacity);
  PHUB_ASSIGN_OR_RETURN(const auto channel, SharedMemory::create("phub-channel", bytes));
  PHUB_RETURN_IF_ERROR(channel->populate());
  transport::ShmConnection connection;
  // Before the server seals it against further writers.
  PHUB_ASSIGN_OR_RETURN(connection.channel, Mapping::of_file(channel->fd(), bytes, true));
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, transport::connect_abstract(target.joined->shm_socket));
  set_timeout(socket.get(), target.timeout);
  Hello hello = hello_of(target, Kind::kShm);
  hello.channel_capacity = capacity;
  hello.memory_bytes = memory.size();
  const std::array<int, 2> descriptors = {channel->fd(), memory.fd()};
  PHUB_ASSIGN_OR_RETURN(Welcome welcome,
                        shake_hands(socket.get(), hello, target.joined->secret, descriptors));
  if (welcome.descriptors.size() != 1) {
    return Status(Code::kInternal, "the server did not share its parameters");
  }
  PHUB_ASSIGN_OR_RETURN(auto parameters, Mapping::of_file(welcome.descriptors[0].get(),
                                                          welcome.verdict.memory_bytes, false));
  PHUB_RETURN_IF_ERROR(set_nonblocking(socket.get()));
  connection.peer_memory = std::move(parameters);
  connection.socket = std::move(socket);
  connection.capacity = capacity;
  connection.own_memory = {memory.data(), memory.size()};
  return connection;
}

}  // namespace phub::client
