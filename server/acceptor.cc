#include "server/acceptor.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/address.h"
#include "common/transport/descriptors.h"

namespace phub::server {

namespace asio = boost::asio;
using transport::Challenge;
using transport::Hello;
using transport::Kind;
using transport::Proof;
using transport::Role;
using transport::Verdict;
using transport::VerdictCode;
using transport::verbs::Introduction;

namespace {
// Handshakes that may fail, a second and at once: beyond what a rack's workers could need.
constexpr double kFailuresPerSecond = 500;
constexpr double kFailuresAtOnce = 1000;
}  // namespace

Acceptor::Door::Door(asio::io_context& context, int socket, bool shm_)
    : listener(context, socket),
      pause(context),
      failures(kFailuresPerSecond, kFailuresAtOnce, TokenBucket::Clock::now()),
      shm(shm_) {}

namespace {

// A worker that is told what became of its connection, on the thread that has made it.
struct Proven {
  Hello hello;
  Challenge challenge;
  Secret secret;
  UniqueFd socket;
  DropCounters& drops;

  void tell(const Result<Admitted>& admitted) const {
    const bool is_shm = hello.kind == Kind::kShm;
    Verdict verdict{.code = admitted ? VerdictCode::kWelcome : VerdictCode::kFull};
    verdict.digest = transport::proof_of(Role::kServer, secret, hello, challenge);
    if (!admitted) drops.count(Drop::kRefusedConnection);
    std::array<int, 1> fds = {admitted ? admitted->memory_fd.get() : -1};
    if (admitted) verdict.memory_bytes = admitted->memory_bytes;
    // A failure means that the worker is gone, which its core will notice.
    Status sent = transport::send_with_descriptors(
        socket.get(), std::as_bytes(std::span(&verdict, 1)),
        std::span<const int>(fds.data(), is_shm && admitted ? 1 : 0));
    if (sent.ok() && admitted && admitted->introduction) {
      sent = transport::send_with_descriptors(
          socket.get(), std::as_bytes(std::span(&*admitted->introduction, 1)), {});
    }
  }
};

}  // namespace

// One handshake. Owns itself through the callbacks that wait; ends by dropping the last of them.
class Acceptor::Session : public std::enable_shared_from_this<Acceptor::Session> {
 public:
  Session(Acceptor& acceptor, Door& door, UniqueFd socket)
      : acceptor_(acceptor),
        door_(door),
        handshakes_(acceptor.handshakes_),
        shm_(door.shm),
        stream_(acceptor.context_, socket.release()),
        timer_(acceptor.context_, acceptor.options_.deadline) {
    ++*handshakes_;
  }
  ~Session() { --*handshakes_; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start() {
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->give_up(Drop::kHandshakeTimeout);
    });
    expect(sizeof(Hello), &Session::on_hello);
  }

 private:
  using Step = void (Session::*)();

  // Reads exactly `bytes` into buffer_, then takes the step.
  void expect(std::size_t bytes, Step step) {
    wanted_ = bytes;
    have_ = 0;
    read(step);
  }

  void read(Step step) {
    stream_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this(), step](const boost::system::error_code& error) {
                         if (!error) self->on_readable(step);
                       });
  }

  void on_readable(Step step) {
    const auto room = std::span(buffer_).subspan(have_, wanted_ - have_);
    const long got =
        shm_ ? transport::receive_with_descriptors(stream_.native_handle(), room, descriptors_)
             : ::recv(stream_.native_handle(), room.data(), room.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return read(step);
    if (got <= 0) return give_up(Drop::kHandshakeTimeout);
    have_ += static_cast<std::size_t>(got);
    if (have_ < wanted_) return read(step);
    (this->*step)();
  }

  void on_hello() {
    std::memcpy(&hello_, buffer_.data(), sizeof(hello_));
    if (hello_.magic != transport::kHelloMagic || hello_.version != transport::kProtocolVersion ||
        shm_ != (hello_.kind == Kind::kShm)) {
      return give_up(Drop::kBadHello);
    }
    challenge_.nonce = transport::random_nonce();
    if (!send(&challenge_, sizeof(challenge_))) return give_up(Drop::kHandshakeTimeout);
    expect(sizeof(Proof), &Session::on_proof);
  }

  void on_proof() {
    Proof proof;
    std::memcpy(&proof, buffer_.data(), sizeof(proof));
    const auto issued = acceptor_.admission_.secret_of(hello_);
    // A stranger and a member with a wrong secret get the same answer. Who proved an expired one is
    // refused with our proof: it learns that it was this secret's server that refused it.
    if (!issued ||
        !transport::equal_constant_time(
            proof.digest, transport::proof_of(Role::kWorker, issued->secret, hello_, challenge_))) {
      refuse(VerdictCode::kRefused, false);
      return give_up(Drop::kWrongSecret);
    }
    secret_ = issued->secret;
    if (issued->has_expired) {
      refuse(VerdictCode::kRefused, true);
      return give_up(Drop::kExpiredSecret);
    }
    const bool is_encrypted = hello_.encrypted != 0;
    if (!shm_ && is_encrypted != acceptor_.options_.encrypt_tcp) {
      refuse(is_encrypted ? VerdictCode::kEncrypted : VerdictCode::kNotEncrypted, true);
      return give_up(Drop::kWrongEncryption);
    }
    if (hello_.kind != Kind::kVerbs) return admit({});
    expect(sizeof(Introduction), &Session::on_introduction);
  }

  void on_introduction() {
    Introduction introduction;
    std::memcpy(&introduction, buffer_.data(), sizeof(introduction));
    admit(introduction);
  }

  void admit(const Introduction& introduction) {
    timer_.cancel();
    stream_.cancel();
    UniqueFd socket(stream_.release());
    if (!shm_) acceptor_.options_.congestion_control.settle(socket.get());
    // The core may close the socket at any time from now on; the verdict needs its own handle.
    UniqueFd answer(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    Candidate candidate{.hello = hello_,
                        .socket = std::move(socket),
                        .descriptors = std::move(descriptors_),
                        .introduction = introduction};
    if (hello_.kind == Kind::kTcp && hello_.encrypted != 0) {
      candidate.keys = transport::stream_keys(secret_, hello_, challenge_);
    }
    const auto proven = std::make_shared<const Proven>(
        Proven{hello_, challenge_, secret_, std::move(answer), acceptor_.drops_});
    acceptor_.admission_.admit(std::move(candidate), [proven](const Result<Admitted>& admitted) {
      proven->tell(admitted);
    });
  }

  bool send(const void* data, std::size_t bytes) {
    return ::send(stream_.native_handle(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes);
  }

  // `proves`: it is said to a member, which learns that it was this secret's server that refused.
  void refuse(VerdictCode code, bool proves) {
    Verdict verdict{.code = code};
    if (proves) verdict.digest = transport::proof_of(Role::kServer, secret_, hello_, challenge_);
    send(&verdict, sizeof(verdict));
  }

  void give_up(Drop cause) {
    if (!stream_.is_open()) return;
    acceptor_.drops_.count(cause);
    door_.failures.take(TokenBucket::Clock::now());
    stream_.close();
    timer_.cancel();
  }

  Acceptor& acceptor_;  // gone when the io_context destroys what still waits, and so is the door
  Door& door_;
  const std::shared_ptr<std::uint32_t> handshakes_;
  bool shm_;
  asio::posix::stream_descriptor stream_;
  asio::steady_timer timer_;
  std::array<std::byte, std::max(sizeof(Hello), sizeof(Introduction))> buffer_ = {};
  std::size_t wanted_ = 0;
  std::size_t have_ = 0;
  Hello hello_;
  Challenge challenge_;
  Secret secret_ = {};  // the member's, once it has proven that it knows it
  std::vector<UniqueFd> descriptors_;
};

Acceptor::Acceptor(const AcceptorOptions& options, asio::io_context& context, Admission& admission)
    : options_(options), context_(context), admission_(admission) {}

Acceptor::~Acceptor() = default;

Result<std::unique_ptr<Acceptor>> Acceptor::create(const AcceptorOptions& options,
                                                   asio::io_context& context,
                                                   Admission& admission) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(options, context, admission));
  if (!options.tcp_address.empty()) PHUB_RETURN_IF_ERROR(acceptor->listen_tcp());
  if (!options.shm_socket.empty()) {
    PHUB_ASSIGN_OR_RETURN(UniqueFd listener, transport::listen_abstract(options.shm_socket));
    acceptor->unix_.emplace(context, listener.release(), true);
    acceptor->accept(*acceptor->unix_);
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
      ::listen(socket.get(), 256) != 0) {
    return errno_status("data_address " + options_.tcp_address +
                            " (choose another port, 0 for a free one, or stop its owner: "
                            "see `ss -ltnp`)",
                        errno == EADDRINUSE ? Code::kAlreadyExists : Code::kInvalidArgument);
  }
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  tcp_port_ =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  tcp_.emplace(context_, socket.release(), false);
  accept(*tcp_);
  return {};
}

void Acceptor::accept(Door& door) {
  door.listener.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, &door](const boost::system::error_code& error) {
                             if (!error) accept_one(door);
                           });
}

void Acceptor::accept_one(Door& door) {
  const auto pause = door.failures.wait(TokenBucket::Clock::now());
  if (pause > TokenBucket::Clock::duration::zero()) {
    door.pause.expires_after(pause);
    door.pause.async_wait([this, &door](const boost::system::error_code& error) {
      if (!error) accept_one(door);
    });
    return;
  }
  UniqueFd socket(
      ::accept4(door.listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket && *handshakes_ < options_.max_handshakes) {
    std::make_shared<Session>(*this, door, std::move(socket))->start();
  } else if (socket) {
    drops_.count(Drop::kRefusedConnection);
    door.failures.take(TokenBucket::Clock::now());
  }
  accept(door);
}

}  // namespace phub::server
