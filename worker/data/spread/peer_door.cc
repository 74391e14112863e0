#include "worker/data/spread/peer_door.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/connect/resolve.h"
#include "common/rpc/address.h"
#include "common/transport/descriptors.h"
#include "common/transport/tcp/congestion.h"
#include "common/transport/tcp/stream_keys.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::data {

using transport::HandshakeRole;
using transport::Hello;
using transport::Mark;
using transport::Proof;
using transport::Verdict;
using transport::VerdictCode;

namespace {

constexpr std::chrono::milliseconds kHandshakeMax{5'000};
constexpr int kPauseMs = 50;
constexpr std::chrono::milliseconds kLookUpMax{10'000};  // of this member's own address

Status listen_error(const std::string& address, const char* why) {
  return {Code::kInvalidArgument, "data.spread.address: cannot listen on " + address + " (" + why +
                                      "): give an address of this machine, with port 0 for a free "
                                      "one"};
}

}  // namespace

Result<PeerListener> PeerListener::open(const std::string& address) {
  if (address.empty()) {
    auto both = open("[::]:0");  // takes calls over IPv4 too
    return both ? std::move(both) : open("0.0.0.0:0");
  }
  const std::string& text = address;
  PHUB_ASSIGN_OR_RETURN(const Address parsed, parse_address(text));
  const auto found = client::resolve(parsed.host, parsed.port, kLookUpMax);
  if (!found) return listen_error(text, found.error().message().c_str());
  const client::SocketAddress& own = found->front();
  UniqueFd socket(::socket(own.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_status("a socket for data.spread", Code::kResourceExhausted);
  const auto congestion = transport::CongestionControl::parse("auto");
  if (congestion) congestion->prepare(socket.get());
  // Connections of a session before may still be closing.
  const int reuse = 1;
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)));
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  auto* const any = reinterpret_cast<sockaddr*>(&bound);
  if (::bind(socket.get(), own.get(), own.bytes) != 0 || ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), any, &length) != 0) {
    return listen_error(text, std::strerror(errno));
  }
  const std::uint16_t number = bound.ss_family == AF_INET6
                                   ? reinterpret_cast<const sockaddr_in6*>(any)->sin6_port
                                   : reinterpret_cast<const sockaddr_in*>(any)->sin_port;
  return PeerListener(std::move(socket), ntohs(number));
}

Result<std::unique_ptr<PeerDoor>> PeerDoor::open(PeerListener listener,
                                                 const client::PeerGroup& group,
                                                 std::chrono::milliseconds timeout,
                                                 std::function<void(Arrival)> on_arrival) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_status("an eventfd for data.spread", Code::kResourceExhausted);
  std::unique_ptr<PeerDoor> door(
      new PeerDoor(std::move(listener), group, timeout, std::move(on_arrival), std::move(wake)));
  try {
    door->thread_ = std::jthread([raw = door.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted,
                  std::string("a thread for data.spread: ") + error.what());
  }
  return door;
}

PeerDoor::PeerDoor(PeerListener listener, client::PeerGroup group,
                   std::chrono::milliseconds timeout, std::function<void(Arrival)> on_arrival,
                   UniqueFd wake)
    : listener_(std::move(listener)),
      group_(std::move(group)),
      end_(Clock::now() + timeout),
      on_arrival_(std::move(on_arrival)),
      wake_(std::move(wake)),
      has_come_(group_.peers.size()),
      missing_(group_.peers.size() - 1) {}

PeerDoor::~PeerDoor() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

int PeerDoor::milliseconds_left() const {
  Clock::time_point next = end_;
  for (const Caller& caller : callers_) {
    if (caller.socket) next = std::min(next, caller.deadline);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void PeerDoor::run() {
  constexpr std::size_t kFirst = 2;  // after the wake-up and the listener
  std::array<pollfd, kFirst + kPlaces> fds{};
  while (missing_ > 0 && Clock::now() < end_) {
    fds[0] = {wake_.get(), POLLIN, 0};
    fds[1] = {listener_.fd(), POLLIN, 0};
    // A negative descriptor is passed over.
    for (std::size_t i = 0; i < kPlaces; ++i) {
      fds[kFirst + i] = {callers_[i].socket.get(), POLLIN, 0};
    }
    if (::poll(fds.data(), fds.size(), milliseconds_left()) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0) break;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      Caller& caller = callers_[i];
      if (!caller.socket) continue;
      const bool stays = fds[kFirst + i].revents == 0 || read(caller);
      if (!stays || Clock::now() >= caller.deadline) caller = Caller{};
    }
    if (fds[1].revents != 0) accept_one();
  }
  for (Caller& caller : callers_) caller = Caller{};
  listener_.close();
}

void PeerDoor::accept_one() {
  UniqueFd socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // Without a descriptor the caller goes on waiting, and so does this.
    pollfd wake{wake_.get(), POLLIN, 0};
    if (errno == EMFILE || errno == ENFILE) ::poll(&wake, 1, kPauseMs);
    return;
  }
  Caller* place = callers_.data();
  for (Caller& caller : callers_) {
    if (!caller.socket) {
      place = &caller;
      break;
    }
    if (caller.deadline < place->deadline) place = &caller;
  }
  *place = Caller{};
  place->socket = std::move(socket);
  place->deadline = std::min(end_, Clock::now() + kHandshakeMax);
}

bool PeerDoor::read(Caller& caller) {
  const std::size_t wanted = caller.next == Next::kHello ? kFirstBytes : sizeof(Proof);
  const ssize_t got =
      ::recv(caller.socket.get(), caller.bytes.data() + caller.got, wanted - caller.got, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  caller.got += static_cast<std::size_t>(got);
  if (got == 0) return false;
  if (caller.got < wanted) return true;
  caller.got = 0;
  if (caller.next == Next::kHello) return on_first(caller);
  if (is_proven(caller)) welcome(caller);
  return false;  // it has its stream, or it goes
}

// Nothing is answered to who does not know the key.
bool PeerDoor::on_first(Caller& caller) {
  std::memcpy(&caller.hello, caller.bytes.data(), sizeof(Hello));
  const Hello& hello = caller.hello;
  Mark mark;
  std::memcpy(&mark, caller.bytes.data() + sizeof(Hello), sizeof(Mark));
  const bool is_ours = hello.magic == transport::kHelloMagic &&
                       hello.version == transport::kProtocolVersion &&
                       hello.kind == transport::Kind::kTcp && hello.job_id == group_.job_id &&
                       hello.epoch == group_.epoch && hello.core == group_.own &&
                       hello.worker < group_.peers.size() && hello.worker != group_.own &&
                       hello.channel_capacity > 0 && hello.channel_capacity <= kRequestsMax &&
                       (hello.encrypted != 0) == group_.encrypts;
  if (!is_ours ||
      !transport::equal_constant_time(mark.digest, transport::mark_of(group_.key, hello).digest)) {
    return false;
  }
  caller.challenge.nonce = transport::random_nonce();
  caller.next = Next::kProof;
  return transport::send_value(caller.socket.get(), caller.challenge).ok();
}

bool PeerDoor::is_proven(const Caller& caller) const {
  Proof proof;
  std::memcpy(&proof, caller.bytes.data(), sizeof(Proof));
  return transport::equal_constant_time(
             proof.digest, transport::proof_of(HandshakeRole::kWorker, group_.key, caller.hello,
                                               caller.challenge)) &&
         !has_come_[caller.hello.worker];
}

void PeerDoor::welcome(Caller& caller) {
  Verdict verdict{.code = VerdictCode::kWelcome};
  verdict.digest =
      transport::proof_of(HandshakeRole::kServer, group_.key, caller.hello, caller.challenge);
  if (!transport::send_value(caller.socket.get(), verdict).ok()) return;
  transport::TcpStream stream(std::move(caller.socket));
  if (group_.encrypts) {
    auto sealed = transport::SealedStream::create(
        transport::stream_keys(group_.key, caller.hello, caller.challenge), HandshakeRole::kServer);
    if (!sealed) return;
    stream.sealed = std::move(*sealed);
  }
  has_come_[caller.hello.worker] = true;
  --missing_;
  on_arrival_({caller.hello.worker, caller.hello.channel_capacity, std::move(stream)});
}

}  // namespace phub::data
