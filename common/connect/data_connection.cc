#include "common/connect/data_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <thread>
#include <vector>

#include "common/connect/resolve.h"
#include "common/memory/peer_memory.h"
#include "common/transport/descriptors.h"
#include "common/transport/handshake.h"

namespace phub::client {

using transport::Challenge;
using transport::HandshakeRole;
using transport::Hello;
using transport::Kind;
using transport::Proof;
using transport::Verdict;
using transport::VerdictCode;
using transport::verbs::Introduction;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::string_view kNonblocking = "fcntl of a data connection";
// Between tries of a connection.
constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};
constexpr std::chrono::milliseconds kLeastTimeout{1};

// What a server sends along with its welcome: shm, its parameters.
constexpr std::size_t kDescriptorsMax = 1;

std::chrono::milliseconds until(Clock::time_point end) {
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()),
                  kLeastTimeout);
}

// All of it until then, however slowly it comes.
template <typename T>
Status receive(int socket, T& message, std::vector<UniqueFd>& descriptors, Clock::time_point end) {
  auto bytes = std::as_writable_bytes(std::span(&message, 1));
  bool is_waiting = false;  // it is looked for once in any case
  while (!bytes.empty()) {
    if (is_waiting && Clock::now() >= end) {
      return {Code::kDeadlineExceeded, "the server's handshake has not come in time"};
    }
    is_waiting = true;
    transport::set_timeout(socket, until(end));
    const long got =
        transport::receive_with_descriptors(socket, bytes, descriptors, kDescriptorsMax);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      return {Code::kUnavailable, "the server closed the connection"};
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) continue;  // its time is over
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
                            Clock::time_point end, std::span<const int> descriptors,
                            const Introduction* introduction = nullptr) {
  Welcome welcome;
  PHUB_RETURN_IF_ERROR(transport::send_value(socket, hello));
  const transport::Mark mark = transport::mark_of(secret, hello);
  PHUB_RETURN_IF_ERROR(transport::send_value(socket, mark));
  PHUB_RETURN_IF_ERROR(receive(socket, welcome.challenge, welcome.descriptors, end));
  const Challenge& challenge = welcome.challenge;
  const Proof proof{transport::proof_of(HandshakeRole::kWorker, secret, hello, challenge)};
  PHUB_RETURN_IF_ERROR(transport::send_value(socket, proof, descriptors));
  if (introduction != nullptr) {
    PHUB_RETURN_IF_ERROR(transport::send_value(socket, *introduction));
  }
  PHUB_RETURN_IF_ERROR(receive(socket, welcome.verdict, welcome.descriptors, end));
  const bool is_proven = transport::equal_constant_time(
      welcome.verdict.digest,
      transport::proof_of(HandshakeRole::kServer, secret, hello, challenge));
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
    return Status(
        Code::kAborted,
        "the core cannot take this connection, or this worker is connected already, or has "
        "another number of tcp_streams, or the server has no file descriptor left");
  }
  return welcome;
}

Hello hello_of(const DataTarget& target, Kind kind) {
  Hello hello;
  hello.kind = kind;
  hello.job_id = target.joined->job_id;
  hello.epoch = target.joined->epoch;
  hello.worker = target.joined->seat;
  hello.core = target.core;
  return hello;
}

Result<UniqueFd> connect_tcp(const DataTarget& target, std::chrono::milliseconds timeout) {
  const std::string where =
      target.joined->host + " port " + std::to_string(target.joined->tcp_port);
  const auto end = Clock::now() + timeout;
  PHUB_ASSIGN_OR_RETURN(const auto addresses,
                        resolve(target.joined->host, target.joined->tcp_port, timeout));
  Status status;
  for (const SocketAddress& address : addresses) {
    UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) {
      status =
          errno_status("a socket to connect to the data port " + where, Code::kResourceExhausted);
      continue;
    }
    transport::set_timeout(socket.get(), until(end));  // also bounds connect
    target.congestion_control.prepare(socket.get());
    const int on = 1;  // the messages of the handshake are small
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(socket.get(), address.get(), address.bytes) == 0) {
      target.congestion_control.settle(socket.get());
      return socket;
    }
    status = errno_status(
        "connecting to the data port " + where + " (is data_address reachable from here?)",
        Code::kUnavailable);
  }
  return status;
}

// A connection whose handshake the server has welcomed.
struct Shaken {
  UniqueFd socket;
  Hello hello;
  Welcome welcome;
};

// What to connect to, and what to say there.
struct Call {
  std::function<Result<UniqueFd>(std::chrono::milliseconds timeout)> connect;
  Hello hello;
  std::span<const int> descriptors = {};
  const Introduction* introduction = nullptr;
};

// A server that is crowded gives a connection's place to another until the handshake is over. That
// is worth another try, with a nonce of its own, as long as there is time; a server that nobody can
// connect to, or that has answered, is not.
Result<Shaken> call_until_welcome(const DataTarget& target, const Call& call) {
  const auto end = Clock::now() + target.timeout;
  std::chrono::milliseconds pause = kFirstPause;
  Shaken shaken{.socket = {}, .hello = call.hello, .welcome = {}};
  for (;;) {
    PHUB_ASSIGN_OR_RETURN(shaken.socket, call.connect(until(end)));
    shaken.hello.nonce = transport::random_nonce();
    Result<Welcome> welcome = shake_hands(shaken.socket.get(), shaken.hello, target.joined->secret,
                                          end, call.descriptors, call.introduction);
    if (welcome) {
      shaken.welcome = std::move(*welcome);
      return shaken;
    }
    const bool is_turned_out = welcome.error().code() == Code::kUnavailable;
    if (!is_turned_out || Clock::now() + pause >= end) return welcome.error();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

Result<Shaken> call_data_port(const DataTarget& target, Hello hello,
                              const Introduction* introduction = nullptr) {
  return call_until_welcome(
      target, {.connect = [&target](auto timeout) { return connect_tcp(target, timeout); },
               .hello = hello,
               .introduction = introduction});
}

}  // namespace

Result<transport::TcpStream> open_tcp(const DataTarget& target) {
  Hello hello = hello_of(target, Kind::kTcp);
  hello.channel_capacity = target.stream;
  hello.encrypted = target.joined->encrypts_data ? 1 : 0;
  PHUB_ASSIGN_OR_RETURN(Shaken shaken, call_data_port(target, hello));
  PHUB_RETURN_IF_ERROR(transport::set_nonblocking(shaken.socket.get(), kNonblocking));
  transport::TcpStream stream(std::move(shaken.socket));
  if (hello.encrypted != 0) {
    const auto keys =
        transport::stream_keys(target.joined->secret, shaken.hello, shaken.welcome.challenge);
    PHUB_ASSIGN_OR_RETURN(stream.sealed,
                          transport::SealedStream::create(keys, HandshakeRole::kWorker));
  }
  return stream;
}

Status open_verbs(const DataTarget& target, transport::VerbsConnection& connection) {
  const auto end = Clock::now() + target.timeout;
  PHUB_ASSIGN_OR_RETURN(Shaken shaken,
                        call_data_port(target, hello_of(target, Kind::kVerbs), &connection.own));
  PHUB_RETURN_IF_ERROR(
      receive(shaken.socket.get(), connection.peer, shaken.welcome.descriptors, end));
  PHUB_RETURN_IF_ERROR(transport::set_nonblocking(shaken.socket.get(), kNonblocking));
  connection.socket = std::move(shaken.socket);
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
  Hello hello = hello_of(target, Kind::kShm);
  hello.channel_capacity = capacity;
  hello.memory_bytes = memory.size();
  const std::array<int, 2> descriptors = {channel->fd(), memory.fd()};
  const std::string& name = target.joined->shm_socket;
  PHUB_ASSIGN_OR_RETURN(
      Shaken shaken,
      call_until_welcome(
          target,
          {.connect = [&name](auto timeout) { return transport::connect_abstract(name, timeout); },
           .hello = hello,
           .descriptors = descriptors}));
  const Welcome& welcome = shaken.welcome;
  if (welcome.descriptors.size() != 1) {
    return Status(Code::kInternal, "the server did not share its parameters");
  }
  const int shared = welcome.descriptors[0].get();
  const std::size_t shared_bytes = welcome.verdict.memory_bytes;
  PHUB_ASSIGN_OR_RETURN(auto parameters,
                        target.guards_memory
                            ? map_peer_memory(shared, shared_bytes, PeerAccess::kRead)
                            : Mapping::of_file(shared, shared_bytes, target.writes_parameters));
  PHUB_RETURN_IF_ERROR(transport::set_nonblocking(shaken.socket.get(), kNonblocking));
  connection.peer_memory = std::move(parameters);
  connection.socket = std::move(shaken.socket);
  connection.capacity = capacity;
  connection.own_memory = {memory.data(), memory.size()};
  return connection;
}

}  // namespace phub::client
