// The control port's listener with an echo in gRPC's place, and its clients. For tests.
#pragma once
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/address.h"
#include "common/transport/descriptors.h"
#include "server/door/control_listener.h"
#include "server/door/pump/frame_head.h"

namespace phub::server {

using namespace std::chrono_literals;

// Keeps what it is given, and says a frame without a payload at once.
struct Echo {
  std::mutex mutex;
  std::vector<UniqueFd> served;
  static void say(const UniqueFd& socket, const std::string& bytes) {
    const bool is_sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                         static_cast<ssize_t>(bytes.size());
    PHUB_CHECK(is_sent, "the pump is there");
  }
  // The peer of the last connection, in gRPC's words.
  std::string peer() {
    const std::lock_guard lock(mutex);
    sockaddr_un name{};
    socklen_t length = sizeof(name);
    const int found =
        ::getpeername(served.back().get(), reinterpret_cast<sockaddr*>(&name), &length);
    PHUB_CHECK(found == 0, "the pump is there");
    return "unix-abstract:" +
           std::string(&name.sun_path[1], length - offsetof(sockaddr_un, sun_path) - 1);
  }
  // What has reached the last one until `enough`.
  std::string read_until(const std::function<bool(const std::string&)>& enough) {
    std::string all;
    const auto guard = std::chrono::steady_clock::now() + 2min;
    while (!enough(all)) {
      std::array<char, 4096> bytes{};
      PHUB_CHECK(std::chrono::steady_clock::now() < guard, "it comes in time");
      const ssize_t got = ::recv(served.back().get(), bytes.data(), bytes.size(), 0);
      if (got > 0) all.append(bytes.data(), static_cast<std::size_t>(got));
      if (got == 0) break;
      std::this_thread::yield();
    }
    return all;
  }
  void operator()(UniqueFd socket) {
    const std::lock_guard lock(mutex);
    say(socket, std::string(kFrameHeadBytes, '\0'));
    served.push_back(std::move(socket));
  }
};

struct ListenerRig {
  mutable Echo echo;
  ControlPeers peers;
  std::unique_ptr<ControlListener> listener;

  explicit ListenerRig(std::chrono::milliseconds first_byte = 10min,
                       const char* address = "127.0.0.1:0", bool starts = true,
                       std::size_t known_max = 100, std::size_t of_payer = 0) {
    listener = std::move(*ControlListener::create({.address = address,
                                                   .peers = &peers,
                                                   .silent_max = 8,
                                                   .strangers_max = 8,
                                                   .known_max = known_max,
                                                   .known_of_payer_max = of_payer,
                                                   .stranger_bytes_max = 1000,
                                                   .unfinished_bytes_max = 10'000,
                                                   .unfinished_of_payer_max = 15'000,
                                                   .first_byte = first_byte,
                                                   .greeting = 10min}));
    if (starts) start();
  }
  void start() {
    listener->start([this](UniqueFd socket) { echo(std::move(socket)); });
  }
  UniqueFd reach() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    transport::set_timeout(socket.get(), 60s);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(parse_address(listener->address())->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    return socket;
  }
};

inline bool send_all(const UniqueFd& socket, const std::string& bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

inline bool speak(const UniqueFd& socket) { return send_all(socket, std::string(kPreface)); }

inline std::string frame(FrameType type, int flags, char stream, const std::string& payload) {
  std::string bytes;
  for (const unsigned shift : {16U, 8U, 0U}) {
    bytes.push_back(static_cast<char>(payload.size() >> shift & 0xffU));
  }
  bytes.push_back(static_cast<char>(type));
  bytes.push_back(static_cast<char>(flags));
  return bytes + std::string(3, '\0') + stream + payload;
}

// A part of a request.
inline std::string data(std::size_t bytes) {
  return frame(FrameType::kData, 0, 1, std::string(bytes, 'x'));
}

// 'k': the echo's first words; 0: the end of the stream; '?': neither came.
inline char reply(const UniqueFd& socket) {
  std::array<char, kFrameHeadBytes> bytes{};
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return '?';
  return got == static_cast<ssize_t>(bytes.size()) ? 'k' : '\0';
}

// All that comes until the end of the stream.
inline std::string last_words(const UniqueFd& socket) {
  std::string all;
  std::array<char, 100> bytes{};
  while (true) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return all;
    all.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// Open, and nothing said.
inline bool is_left_alone(const UniqueFd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == -1 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

inline std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

inline UniqueFd known_caller(const ListenerRig& rig, const std::string& payer = "") {
  UniqueFd caller = rig.reach();
  REQUIRE(speak(caller));
  REQUIRE(reply(caller) == 'k');
  rig.listener->know(rig.echo.peer(), payer);
  return caller;
}

// With gRPC's name for it.
struct NamedCaller {
  UniqueFd socket;
  std::string peer;
};
inline NamedCaller named_caller(const ListenerRig& rig, const std::string& payer = "") {
  UniqueFd socket = known_caller(rig, payer);
  return {.socket = std::move(socket), .peer = rig.echo.peer()};
}

}  // namespace phub::server
