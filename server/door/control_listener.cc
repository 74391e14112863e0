#include "server/door/control_listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <future>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/rpc/address.h"
#include "server/door/control_served.h"
#include "server/door/door.h"
#include "server/door/lobby.h"

namespace phub::server {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Clock = std::chrono::steady_clock;

// How often it is looked which connections are over, and how much the others have sent.
constexpr std::chrono::milliseconds kLook{100};
// Until gRPC's last words are on their way, when it has ended.
constexpr std::chrono::seconds kLastWords{1};
constexpr std::chrono::milliseconds kLastLook{5};

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

class AsioControlListener final : public ControlListener {
 public:
  explicit AsioControlListener(const ControlListenerOptions& options)
      : options_(options), silent_(options.silent_max), served_(options, context_) {}

  ~AsioControlListener() override {
    if (!thread_.joinable()) return;
    AsioControlListener::stop();
    asio::post(context_, [this] {
      last_words_until_ = Clock::now() + kLastWords;
      look();
    });
    thread_.join();
  }

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

  void start(Serve serve, Divert divert) override {
    served_.serve_with([this, serve = std::move(serve)](UniqueFd grpc_end) {
      if (!has_stopped_) serve(std::move(grpc_end));  // or nobody is there any more
    });
    divert_ = std::move(divert);
    for (auto& door : doors_) door->open();
    look();
    thread_ = std::thread([this] { context_.run(); });
  }

  void stop() override {
    if (!thread_.joinable()) return;
    std::promise<void> done;
    asio::post(context_, [&] {
      for (auto& door : doors_) door->shut();
      has_stopped_ = true;
      done.set_value();
    });
    done.get_future().wait();
  }

  void know(const std::string& peer, const std::string& payer) override {
    asio::post(context_, [this, peer, payer] { served_.know(peer, payer); });
  }

  void count_message(const std::string& peer, std::uint64_t bytes) override {
    asio::post(context_, [this, peer, bytes] { served_.count_message(peer, bytes); });
  }

  ControlDoorCounters counters() const override {
    ControlDoorCounters counters{.handed_over = served_.handed_over(),
                                 .turned_out = turned_out_.value() + served_.turned_out(),
                                 .crowded_out = served_.crowded_out(),
                                 .unruly = served_.unruly(),
                                 .held = served_.held()};
    for (const auto& door : doors_) counters.shortages += door->shortages();
    return counters;
  }

  const std::string& address() const override { return address_; }

 private:
  // Has said nothing yet. Owns itself through the callbacks that wait.
  class Silent final : public Lobby::Guest, public std::enable_shared_from_this<Silent> {
   public:
    Silent(AsioControlListener& listener, Door& door, UniqueFd socket, std::string address)
        : listener_(listener),
          door_(door),
          address_(std::move(address)),
          stream_(listener.context_, socket.release()),
          timer_(listener.context_) {
      listener_.silent_.enter(address_, *this);
    }
    ~Silent() { listener_.silent_.leave(*this); }
    Silent(const Silent&) = delete;
    Silent& operator=(const Silent&) = delete;

    void wait(std::chrono::milliseconds time) {
      timer_.expires_after(time);
      timer_.async_wait([self = shared_from_this()](const Error& error) {
        if (!error) self->turn_out();
      });
      wait_for_byte();
    }

    void turn_out() override {
      if (!stream_.is_open()) return;
      listener_.silent_.leave(*this);
      listener_.turned_out_.add(1);
      door_.charge(address_, kSilentCost);
      stream_.close();
      timer_.cancel();
    }

   private:
    void wait_for_byte() {
      stream_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const Error& error) {
                           if (!error && self->stream_.is_open()) self->on_readable();
                         });
    }

    void on_readable() {
      char byte = 0;
      const auto got = ::recv(stream_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      // A wait may end for nothing: an event of a socket that has just closed is taken for one of
      // the next socket, which asio keeps in the same place.
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_for_byte();
      if (got != 1) return turn_out();
      // Who has left while it waited in the system's queue is not worth gRPC's time.
      pollfd gone{.fd = stream_.native_handle(), .events = POLLRDHUP, .revents = 0};
      if (::poll(&gone, 1, 0) == 1) return turn_out();
      listener_.silent_.leave(*this);
      timer_.cancel();
      listener_.serve(UniqueFd(stream_.release()), door_, address_);
    }

    AsioControlListener& listener_;
    Door& door_;
    const std::string address_;
    asio::posix::stream_descriptor stream_;
    asio::steady_timer timer_;
  };

  void serve(UniqueFd socket, Door& door, const std::string& address) {
    if (has_stopped_ || (divert_ && divert_(socket))) return;
    served_.enter(std::move(socket), door, address);
  }

  void look() {
    served_.look();
    const bool is_last = last_words_until_ != Clock::time_point();
    if (is_last && (served_.are_at_rest() || Clock::now() >= last_words_until_)) {
      return context_.stop();
    }
    timer_.expires_after(is_last ? kLastLook : kLook);
    timer_.async_wait([this](const Error& error) {
      if (!error) look();
    });
  }

  const ControlListenerOptions options_;
  std::string address_;
  Divert divert_;
  bool has_stopped_ = false;
  Clock::time_point last_words_until_;  // the epoch: gRPC has not ended
  Lobby silent_;
  Counter turned_out_;
  asio::io_context context_{1};  // its callbacks hold the silent ones: it goes before what they use
  ServedConnections served_;     // their pumps are the context's
  std::list<std::optional<Door>> doors_;
  asio::steady_timer timer_{context_};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ControlListener>> ControlListener::create(
    const ControlListenerOptions& options) {
  auto listener = std::make_unique<AsioControlListener>(options);
  PHUB_RETURN_IF_ERROR(listener->listen());
  return std::unique_ptr<ControlListener>(std::move(listener));
}

}  // namespace phub::server
