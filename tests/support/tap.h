// Somebody on the way between workers and a server: passes bytes on, keeps a copy, and may change
// one. A thread of its own.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace phub::testing {

class Tap {
 public:
  enum class Way { kToServer, kToWorker };
  // The bit 0x10 of byte `at` of what the first connection sends that way.
  struct Change {
    Way way = Way::kToServer;
    std::size_t at = 0;
  };

  Tap(std::uint16_t server_port, std::optional<Change> change)
      : server_port_(server_port), change_(change), listener_(socket_of()) {
    sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    PHUB_CHECK(::bind(listener_.get(), generic, bytes) == 0 && ::listen(listener_.get(), 16) == 0 &&
                   ::getsockname(listener_.get(), generic, &bytes) == 0,
               "a loopback listener");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tap() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  std::uint16_t port() const { return port_; }
  // All that was sent one way so far, over the connections in the order in which they were made.
  std::string seen(Way way) const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const auto& link : links_) all += link->seen[way == Way::kToServer ? 0 : 1];
    return all;
  }

 private:
  struct Link {
    UniqueFd worker;
    UniqueFd server;
    std::string seen[2];
  };

  static UniqueFd socket_of() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void run() {
    while (true) {
      std::vector<pollfd> wanted = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const auto& link : links_) {
        wanted.push_back({link->worker.get(), POLLIN, 0});
        wanted.push_back({link->server.get(), POLLIN, 0});
      }
      ::poll(wanted.data(), wanted.size(), -1);
      if (wanted[0].revents != 0) return;
      for (std::size_t i = 0; i < links_.size(); ++i) {
        if (wanted[2 + 2 * i].revents != 0) pass_on(i, Way::kToServer);
        if (wanted[3 + 2 * i].revents != 0) pass_on(i, Way::kToWorker);
      }
      if (wanted[1].revents != 0) accept();
    }
  }
  void accept() {
    auto link = std::make_unique<Link>();
    link->worker = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    link->server = socket_of();
    const sockaddr_in address = loopback(server_port_);
    ::connect(link->server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(link));
  }
  void pass_on(std::size_t index, Way way) {
    Link& link = *links_[index];
    if (!link.worker || !link.server) return;
    const bool to_server = way == Way::kToServer;
    const int from = to_server ? link.worker.get() : link.server.get();
    const int to = to_server ? link.server.get() : link.worker.get();
    std::string bytes(1 << 16, 0);
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got <= 0) {  // an end: of both
      link.worker.reset();
      link.server.reset();
      return;
    }
    bytes.resize(static_cast<std::size_t>(got));
    std::string& seen = link.seen[to_server ? 0 : 1];
    if (change_ && index == 0 && change_->way == way && change_->at >= seen.size() &&
        change_->at < seen.size() + bytes.size()) {
      char& byte = bytes[change_->at - seen.size()];
      byte = static_cast<char>(byte ^ 0x10);
    }
    {
      const std::lock_guard lock(mutex_);
      seen += bytes;
    }
    ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const std::uint16_t server_port_;
  const std::optional<Change> change_;
  UniqueFd listener_;
  UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;  // what `seen` reads
  std::vector<std::unique_ptr<Link>> links_;
  std::thread thread_;
};

}  // namespace phub::testing
