#include "tests/unit/data/formats/range_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <charconv>
#include <cstdlib>

namespace phub::data {
namespace {

std::uint64_t number_at(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Asked parse(const std::string& head) {
  Asked asked{.head = head, .target = head.substr(4, head.find(' ', 4) - 4)};
  constexpr std::string_view kRange = "Range: bytes=";
  const std::size_t range = head.find(kRange);
  if (range == std::string::npos) return asked;
  asked.first = number_at(std::string_view(head).substr(range + kRange.size()));
  asked.bytes =
      number_at(std::string_view(head).substr(head.find('-', range) + 1)) + 1 - asked.first;
  return asked;
}

}  // namespace

RangeServer::RangeServer(Handler handler)
    : handler_(std::move(handler)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  ::setenv("no_proxy", "*", 1);  // of whoever runs the test
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener_.get(), any, bytes) == 0);
  REQUIRE(::listen(listener_.get(), 64) == 0);
  REQUIRE(::getsockname(listener_.get(), any, &bytes) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

RangeServer::~RangeServer() {
  ::eventfd_write(stop_.get(), 1);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::string RangeServer::url(const std::string& target, const std::string& who) const {
  return "http://" + who + "127.0.0.1:" + std::to_string(port_) + target;
}

void RangeServer::accept_all() {
  for (;;) {
    pollfd waiting[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    connections_.fetch_add(1);
    threads_.emplace_back([this, fd] {
      const UniqueFd owned(fd);
      serve(fd);
    });
  }
}

bool RangeServer::receive(int fd, std::string& text) const {
  pollfd waiting[] = {{fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  if (::poll(waiting, 2, -1) < 0) return errno == EINTR;
  if (waiting[1].revents != 0) return false;
  char buffer[4096];
  const ssize_t bytes = ::recv(fd, buffer, sizeof(buffer), 0);
  if (bytes <= 0) return false;
  text.append(buffer, static_cast<std::size_t>(bytes));
  return true;
}

void RangeServer::serve(int fd) const {
  std::string text;
  for (;;) {
    const std::size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (!receive(fd, text)) return;
      continue;
    }
    const Reply reply = handler_(parse(text.substr(0, end + 2)));
    text.erase(0, end + 4);
    std::string_view rest = reply.text;
    while (!rest.empty()) {
      const ssize_t bytes = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (bytes <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(bytes));
    }
    if (reply.closes) return;
    if (reply.stalls) {
      while (receive(fd, text)) {
      }
      return;
    }
  }
}

}  // namespace phub::data
