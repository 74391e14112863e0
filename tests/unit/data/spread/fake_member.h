// A member of a spread set that does what a test says, frame by frame, over plain TCP.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <future>
#include <span>
#include <vector>

#include "common/connect/data_connection.h"
#include "common/protocol/crc32c.h"
#include "common/transport/descriptors.h"
#include "common/transport/tcp/frame.h"
#include "tests/unit/data/spread/members.h"
#include "worker/data/spread/peer_door.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::data {

// One end of a connection, whose calls wait for a minute at most.
class RawStream {
 public:
  explicit RawStream(transport::TcpStream stream) : socket_(std::move(stream.socket)) {
    const int flags = ::fcntl(socket_.get(), F_GETFL);
    PHUB_CHECK(::fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK) == 0, "a socket");
    transport::set_timeout(socket_.get(), kLongEnough);
  }

  void send(const void* data, std::size_t bytes) {
    // A peer that has closed meanwhile is what some tests are about.
    static_cast<void>(::send(socket_.get(), data, bytes, MSG_NOSIGNAL));
  }
  void send_plain(std::uint32_t number, std::span<const std::uint8_t> bytes) {
    send_frame({.magic = transport::kFrameMagic,
                .immediate = number,
                .bytes = static_cast<std::uint32_t>(bytes.size()),
                .check = transport::frame_check(number, static_cast<std::uint32_t>(bytes.size()))},
               bytes);
  }
  void send_checked(std::uint32_t number, std::span<const std::uint8_t> bytes,
                    std::uint32_t checksum) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    send_frame({.magic = checksum,
                .immediate = number,
                .bytes = size,
                .check = transport::checked_frame_check(number, size, checksum)},
               bytes);
  }
  // In one piece: a refusal, and then an answer of `bytes` without its last byte.
  void send_refused_and_begun(std::uint32_t number, std::uint32_t bytes) {
    const transport::FrameHeader refusal{.magic = transport::kFrameMagic,
                                         .immediate = number,
                                         .bytes = 1,
                                         .check = transport::frame_check(number, 1)};
    const transport::FrameHeader answer{.magic = 5,
                                        .immediate = number,
                                        .bytes = bytes,
                                        .check = transport::checked_frame_check(number, bytes, 5)};
    std::vector<std::uint8_t> all(2 * sizeof(refusal) + bytes);
    std::memcpy(all.data(), &refusal, sizeof(refusal));
    all[sizeof(refusal)] = static_cast<std::uint8_t>(PeerRefusal::kNotHeld);
    std::memcpy(all.data() + sizeof(refusal) + 1, &answer, sizeof(answer));
    send(all.data(), all.size());
  }
  void ask(std::uint32_t number, std::uint64_t sample, std::uint32_t largest = 1000,
           std::uint32_t content = content_here(), std::chrono::milliseconds wait = kLongEnough) {
    const PeerRequest request{.sample = sample,
                              .largest_bytes = largest,
                              .content_number = content,
                              .wait_ms = static_cast<std::uint32_t>(wait.count())};
    send_plain(number, {reinterpret_cast<const std::uint8_t*>(&request), sizeof(request)});
  }
  // The same sample again and again, in one piece.
  void ask_at_once(std::uint32_t count, std::uint64_t sample) {
    struct Whole {
      transport::FrameHeader header;
      PeerRequest request;
    };
    std::vector<Whole> all;
    for (std::uint32_t number = 0; number < count; ++number) {
      all.push_back({{.magic = transport::kFrameMagic,
                      .immediate = number,
                      .bytes = sizeof(PeerRequest),
                      .check = transport::frame_check(number, sizeof(PeerRequest))},
                     {.sample = sample,
                      .largest_bytes = 1000,
                      .content_number = content_here(),
                      .wait_ms = 60'000}});
    }
    send(all.data(), all.size() * sizeof(Whole));
  }

  // False: the other end has closed, or nothing has come.
  bool receive(void* data, std::size_t bytes) {
    return ::recv(socket_.get(), data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  struct Frame {
    transport::FrameHeader header{};
    std::vector<std::uint8_t> bytes{};
  };
  Frame receive_frame() {
    Frame frame;
    REQUIRE(receive(&frame.header, sizeof(frame.header)));
    frame.bytes.resize(frame.header.bytes);
    REQUIRE(receive(frame.bytes.data(), frame.bytes.size()));
    return frame;
  }
  bool is_closed() {
    std::uint8_t byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) <= 0;
  }

 private:
  void send_frame(const transport::FrameHeader& header, std::span<const std::uint8_t> bytes) {
    send(&header, sizeof(header));
    send(bytes.data(), bytes.size());
  }

  UniqueFd socket_;
};

inline PeerListener listen_here() {
  auto listener = PeerListener::open("127.0.0.1:0");
  REQUIRE(listener);
  return std::move(*listener);
}

// A member's door, and its calls of another one.
class FakeMember {
 public:
  FakeMember(const client::PeerGroup& group, PeerListener listener) : group_(group) {
    auto door = PeerDoor::open(std::move(listener), group, kLongEnough, [this](auto arrival) {
      arrived_.set_value(std::make_shared<RawStream>(std::move(arrival.stream)));
    });
    REQUIRE(door);
    door_ = std::move(*door);
  }

  // The connection by which the other member asks this one.
  RawStream& asked_by_other() {
    if (!asker_) {
      auto future = arrived_.get_future();
      REQUIRE(future.wait_for(kLongEnough) == std::future_status::ready);
      asker_ = future.get();
    }
    return *asker_;
  }

  Result<transport::TcpStream> call(std::uint32_t member, std::uint32_t requests_max,
                                    const client::Secret& key,
                                    std::chrono::milliseconds timeout = kLongEnough) const {
    client::JoinInfo place;
    place.job_id = group_.job_id;
    place.epoch = group_.epoch;
    place.seat = group_.own;
    place.secret = key;
    place.host = group_.peers[member].host;
    place.tcp_port = group_.peers[member].port;
    return client::open_tcp(
        {.joined = &place, .core = member, .timeout = timeout, .stream = requests_max});
  }

 private:
  const client::PeerGroup group_;
  std::promise<std::shared_ptr<RawStream>> arrived_;
  std::shared_ptr<RawStream> asker_;
  std::unique_ptr<PeerDoor> door_;
};

}  // namespace phub::data
