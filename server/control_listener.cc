#include "server/control_listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/address.h"
#include "server/door.h"
#include "server/handed_socket.h"
#include "server/lobby.h"

namespace phub::server {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// How often it is looked which connections gRPC has closed, and how much strangers have sent. How
// much known connections have sent is looked at less often where there are more than so many.
constexpr std::chrono::milliseconds kLook{100};
constexpr std::size_t kKnownOfLook = 512;
// Beside its messages: of a call that has succeeded, and of a message, its head and its part of
// TLS and HTTP/2.
constexpr std::uint64_t kCallBytes = 4096;
constexpr std::uint64_t kMessageHeadBytes = 512;
constexpr std::uint64_t kMessageFraction = 16;

Status listen_error(const Address& address, int error) {
  const std::string what = fmt::format("control_address: cannot listen on {}", to_string(address));
  switch (error) {
    case EADDRINUSE:
      return {Code::kAlreadyExists,
              fmt::format("{}: the port is in use, perhaps by another phub-server; stop that one, "
                          "or set control_address (--control) to another port, or to port 0 for "
                          "a free one",
                          what)};
    case EADDRNOTAVAIL:
      return {Code::kUnavailable,
              fmt::format("{}: this machine has no such address; `ip address` shows those it has",
                          what)};
    case EACCES:
      return {Code::kPermissionDenied,
              fmt::format("{}: ports below 1024 need privileges; choose a higher one", what)};
    default:
      errno = error;
      return errno_status(what);
  }
}

void set_port(sockaddr* address, std::uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

std::uint16_t port_of(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// The errno of what failed is kept.
UniqueFd listen_on(const addrinfo& address) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  if (!socket) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // inherited
  if (address.ai_family == AF_INET6) {                                    // "[::]" is for IPv4 too
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

// All addresses of the host, on one port, which is written to `address`; those that this machine
// does not have are left out, unless none remains.
Result<std::vector<UniqueFd>> listen_on_all(Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return Status(Code::kUnavailable,
                  fmt::format("control_address: cannot listen on {}: {}; is the host name right?",
                              to_string(address), ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<UniqueFd> listeners;
  int error = 0;
  for (addrinfo* one = found; one != nullptr; one = one->ai_next) {
    set_port(one->ai_addr, address.port);
    UniqueFd listener = listen_on(*one);
    if (!listener) {
      error = errno;
      if (error == EADDRINUSE) break;  // half of a port would be worse than none
      continue;
    }
    address.port = port_of(listener.get());
    listeners.push_back(std::move(listener));
  }
  if (listeners.empty() || error == EADDRINUSE) return listen_error(address, error);
  return listeners;
}

// "127.0.0.1:40000", "::1:40000", of the socket's other end.
std::string peer_of(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&peer), length, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  std::string_view name = host.data();
  if (name.starts_with("::ffff:")) name.remove_prefix(7);  // IPv4 that came to an IPv6 socket
  return fmt::format("{}:{}", name, port.data());
}

// The same from gRPC's "ipv4:127.0.0.1:40000" or "ipv6:%5B::1%5D:40000".
std::string peer_from(std::string_view uri) {
  std::string peer(uri.substr(std::min(uri.find(':') + 1, uri.size())));
  for (const std::string_view bracket : {"%5B", "%5D", "[", "]"}) {
    if (const auto at = peer.find(bracket); at != std::string::npos) peer.erase(at, bracket.size());
  }
  if (const auto scope = peer.find("%25"); scope != std::string::npos) peer.erase(scope + 1, 2);
  return peer;
}

class AsioControlListener;

// Has said nothing yet. Owns itself through the callbacks that wait.
class Silent final : public Lobby::Guest, public std::enable_shared_from_this<Silent> {
 public:
  Silent(AsioControlListener& listener, Door& door, UniqueFd socket, std::string address);
  ~Silent();
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

  void wait(std::chrono::milliseconds time);
  void turn_out() override;

 private:
  void on_readable();

  AsioControlListener& listener_;
  Door& door_;
  const std::string address_;
  asio::posix::stream_descriptor stream_;
  asio::steady_timer timer_;
};

// gRPC has it.
struct Served final : Lobby::Guest {
  Served(int fd, Door& door_, std::string address_)
      : socket(fd), door(door_), address(std::move(address_)) {}
  void turn_out() override {
    socket.end();
    was_turned_out = true;
  }
  const HandedSocket socket;
  Door& door;
  const std::string address;
  bool is_known = false;
  bool was_turned_out = false;
  std::uint64_t received = 0;    // at the last look
  std::uint64_t unfinished = 0;  // of that, beyond whole messages
  std::uint64_t finished = 0;    // since the last look
};

class AsioControlListener final : public ControlListener {
 public:
  explicit AsioControlListener(const ControlListenerOptions& options)
      : options_(options), silent_(options.silent_max), strangers_(options.strangers_max) {}

  ~AsioControlListener() override { AsioControlListener::stop(); }

  Status listen() {
    PHUB_ASSIGN_OR_RETURN(Address address, parse_address(options_.address));
    PHUB_ASSIGN_OR_RETURN(std::vector<UniqueFd> listeners, listen_on_all(address));
    address_ = to_string(address);
    for (UniqueFd& listener : listeners) {
      auto& door = doors_.emplace_back();
      door.emplace(context_, std::move(listener), [this, &door](Door::Guest guest) {
        if (guest.is_in_doubt) return turned_out_.add(1);  // closed: a member has no mark here
        auto silent = std::make_shared<Silent>(*this, *door, std::move(guest.socket),
                                               std::move(guest.address));
        silent->wait(options_.first_byte);
      });
    }
    return {};
  }

  void start(Serve serve) override {
    serve_ = std::move(serve);
    for (auto& door : doors_) door->open();
    look_later();
    thread_ = std::thread([this] { context_.run(); });
  }

  void stop() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void know(const std::string& peer) override {
    asio::post(context_, [this, key = peer_from(peer)] {
      const auto found = served_.find(key);
      if (found == served_.end()) return;
      found->second.finished += kCallBytes;
      if (found->second.is_known) return;
      if (known_ >= options_.known_max) return say_full();
      strangers_.leave(found->second);
      found->second.door.prove(found->second.address);
      found->second.is_known = true;
      ++known_;
    });
  }

  void count_message(const std::string& peer, std::uint64_t bytes) override {
    asio::post(context_, [this, bytes, key = peer_from(peer)] {
      const auto found = served_.find(key);
      if (found == served_.end()) return;
      found->second.finished += bytes + bytes / kMessageFraction + kMessageHeadBytes;
    });
  }

  ControlDoorCounters counters() const override {
    ControlDoorCounters counters{.handed_over = handed_over_.value(),
                                 .turned_out = turned_out_.value()};
    for (const auto& door : doors_) counters.shortages += door->shortages();
    return counters;
  }

  const std::string& address() const override { return address_; }

 private:
  friend class Silent;

  void serve(UniqueFd socket, Door& door, const std::string& address) {
    std::string peer = peer_of(socket.get());
    if (const auto old = served_.find(peer); old != served_.end()) forget(old);  // a port again
    Served& served = served_.try_emplace(peer, socket.get(), door, address).first->second;
    strangers_.enter(address, served);
    handed_over_.add(1);
    serve_(std::move(socket));
  }

  using Connections = std::map<std::string, Served>;

  Connections::iterator forget(Connections::iterator connection) {
    Served& served = connection->second;
    strangers_.leave(served);
    if (served.is_known) --known_;
    if (!served.is_known) served.door.charge(served.address, kSpokenCost);
    if (served.was_turned_out) turned_out_.add(1);
    return served_.erase(connection);
  }

  void look_later() {
    timer_.expires_after(kLook);
    timer_.async_wait([this](const Error& error) {
      if (error) return;
      looks_ = (looks_ + 1) % (1 + known_ / kKnownOfLook);
      for (auto one = served_.begin(); one != served_.end();) {
        end_if_too_long(one->second);
        one = one->second.socket.is_open() ? std::next(one) : forget(one);
      }
      look_later();
    });
  }

  // What is sent lies in memory that all callers share until its calls are whole.
  void end_if_too_long(Served& served) {
    if (served.was_turned_out || (served.is_known && looks_ != 0)) return;
    const std::uint64_t received = std::max(served.socket.received(), served.received);
    served.unfinished += received - served.received;
    served.received = received;
    if (!served.is_known) {
      if (received > options_.stranger_bytes_max) turn_out(served);
      return;
    }
    served.unfinished -= std::min(served.unfinished, std::exchange(served.finished, 0));
    if (served.unfinished <= options_.unfinished_bytes_max) return;
    say(said_unfinished_, [&] {
      spdlog::warn(
          "event=control_unfinished address={} bytes={} allowed={} reason=\"a caller sends "
          "messages "
          "that do not end; its connection is closed\"",
          served.address, served.unfinished, options_.unfinished_bytes_max);
    });
    turn_out(served);
  }

  void turn_out(Served& served) {
    strangers_.leave(served);
    served.turn_out();
  }

  // A line a minute of each kind.
  template <typename Line>
  static void say(std::chrono::steady_clock::time_point& last, const Line& line) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::minutes(1)) return;
    last = now;
    line();
  }

  void say_full() {
    say(said_full_, [this] {
      spdlog::warn(
          "event=control_full connections={} reason=\"new callers may be turned out; is the limit "
          "of open files too low, or does somebody keep connections?\"",
          known_);
    });
  }

  const ControlListenerOptions options_;
  std::string address_;
  Serve serve_;
  Lobby silent_;
  Lobby strangers_;
  Connections served_;  // by their other end
  std::size_t known_ = 0;
  std::size_t looks_ = 0;
  std::chrono::steady_clock::time_point said_full_;
  std::chrono::steady_clock::time_point said_unfinished_;
  Counter handed_over_;
  Counter turned_out_;
  asio::io_context context_{1};  // its callbacks hold the silent ones: it goes before what they use
  std::list<std::optional<Door>> doors_;
  asio::steady_timer timer_{context_};
  std::thread thread_;
};

Silent::Silent(AsioControlListener& listener, Door& door, UniqueFd socket, std::string address)
    : listener_(listener),
      door_(door),
      address_(std::move(address)),
      stream_(listener.context_, socket.release()),
      timer_(listener.context_) {
  listener_.silent_.enter(address_, *this);
}

Silent::~Silent() { listener_.silent_.leave(*this); }

void Silent::wait(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this()](const Error& error) {
    if (!error) self->turn_out();
  });
  stream_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const Error& error) {
                       if (!error && self->stream_.is_open()) self->on_readable();
                     });
}

void Silent::turn_out() {
  if (!stream_.is_open()) return;
  listener_.silent_.leave(*this);
  listener_.turned_out_.add(1);
  door_.charge(address_, kSilentCost);
  stream_.close();
  timer_.cancel();
}

void Silent::on_readable() {
  char byte = 0;
  if (::recv(stream_.native_handle(), &byte, 1, MSG_PEEK) != 1) return turn_out();
  // Who has left while it waited in the system's queue is not worth gRPC's time.
  pollfd gone{.fd = stream_.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&gone, 1, 0) == 1) return turn_out();
  listener_.silent_.leave(*this);
  timer_.cancel();
  listener_.serve(UniqueFd(stream_.release()), door_, address_);
}

}  // namespace

Result<std::unique_ptr<ControlListener>> ControlListener::create(
    const ControlListenerOptions& options) {
  auto listener = std::make_unique<AsioControlListener>(options);
  PHUB_RETURN_IF_ERROR(listener->listen());
  return std::unique_ptr<ControlListener>(std::move(listener));
}

}  // namespace phub::server
