// Whoever sits on the way of an encrypted stream can end it, and nothing else.
#include "common/transport/tcp/sealed_stream.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
namespace {

constexpr std::size_t kTag = RecordCipher::kTagBytes;
constexpr std::size_t kHeaderRecord = sizeof(FrameHeader) + kTag;
constexpr std::uint32_t kBytes = 100;
constexpr std::size_t kFrame = kHeaderRecord + kBytes + kTag;

FrameHeader clear_header(std::uint32_t immediate, std::uint32_t bytes) {
  return {kFrameMagic, immediate, bytes, frame_check(immediate, bytes)};
}

// What a worker sends for `frames` pushes of the same bytes, to rooms 0, 1, ...
std::vector<std::byte> recorded(std::uint32_t frames, std::uint32_t bytes = kBytes) {
  const auto worker = sealed_stream(HandshakeRole::kWorker);
  const std::vector<std::byte> payload(bytes, std::byte{7});
  std::vector<std::byte> all;
  for (std::uint32_t i = 0; i < frames; ++i) {
    append_sent(*worker, {.data = payload.data(), .bytes = bytes, .immediate = i}, all);
  }
  return all;
}

// A core's endpoint that is sent what the test likes.
struct Listener {
  RoomBuffers receive_buffers;
  std::unique_ptr<TcpEndpoint> endpoint = std::move(
      *TcpEndpoint::create({.max_peers = 2, .max_write_bytes = 1U << 17}, receive_buffers));
  UniqueFd peer;

  Listener() {
    auto [ours, theirs] = stream_pair();
    auto sealed = std::move(*SealedStream::create(test_keys(), HandshakeRole::kServer));
    REQUIRE(endpoint->add({std::move(ours), std::move(sealed)}));
    peer = std::move(theirs);
  }
  void send(std::span<const std::byte> bytes) const {
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // Arrivals until the peer was lost, and why it was.
  std::pair<std::size_t, Loss> outcome() {
    std::size_t arrivals = 0;
    while (true) {
      const auto seen = collect(*endpoint, 1);
      REQUIRE_FALSE(seen.empty());
      for (const Completion& completion : seen) {
        if (completion.kind == CompletionKind::kPeerLost) {
          endpoint->remove(completion.peer);
          CHECK(receive_buffers.open == 0);
          return {arrivals, completion.loss};
        }
        ++arrivals;
        --receive_buffers.open;
      }
    }
  }
};

using Outcome = std::pair<std::size_t, Loss>;

}  // namespace

TEST_CASE("a bit that is flipped anywhere loses the peer before its frame arrives") {
  const auto stream = recorded(2);
  for (std::size_t at = 0; at < stream.size(); ++at) {
    auto changed = stream;
    changed[at] ^= std::byte{0x10};
    Listener listener;
    listener.send(changed);
    CHECK(listener.outcome() == Outcome{at / kFrame, Loss::kBadTag});
  }
}

TEST_CASE("a frame that is repeated, left out or sent before its turn loses the peer") {
  const auto stream = recorded(3);
  const auto frame = [&](std::size_t i) { return std::span(stream).subspan(i * kFrame, kFrame); };
  for (const auto& [order, arrivals] :
       std::vector<std::pair<std::vector<std::size_t>, std::size_t>>{
           {{0, 0}, 1}, {{0, 2}, 1}, {{1, 0}, 0}, {{0, 1, 0}, 2}}) {
    Listener listener;
    for (const std::size_t i : order) listener.send(frame(i));
    CHECK(listener.outcome() == Outcome{arrivals, Loss::kBadTag});
  }
}

TEST_CASE("a stream that is cut anywhere loses the peer as one that closed") {
  const auto stream = recorded(1);
  for (std::size_t bytes = 0; bytes < stream.size(); ++bytes) {
    Listener listener;
    listener.send(std::span(stream).first(bytes));
    listener.peer.reset();
    CHECK(listener.outcome() == Outcome{0, Loss::kClosed});
  }
}

TEST_CASE("a stream that comes byte by byte arrives as it was sent") {
  constexpr std::uint32_t kLong = 33'000;  // two records
  Listener listener;
  std::vector<Completion> batch(4);
  std::size_t arrivals = 0;
  for (const std::byte& byte : recorded(2, kLong)) {
    listener.send({&byte, 1});
    arrivals += listener.endpoint->poll(batch);
  }
  CHECK(arrivals == 2);
  CHECK(listener.receive_buffers.window()[RoomBuffers::kRoomBytes + kLong - 1] == std::byte{7});
}

TEST_CASE("what our own side sent is not taken for the peer's") {
  Listener listener;
  const auto server = sealed_stream(HandshakeRole::kServer);
  const std::vector<std::byte> payload(kBytes);
  std::vector<std::byte> sent;
  append_sent(*server, {.data = payload.data(), .bytes = kBytes, .immediate = 0}, sent);
  listener.send(sent);
  CHECK(listener.outcome() == Outcome{0, Loss::kBadTag});
}

TEST_CASE("plain frames on an encrypted stream lose the peer") {
  Listener listener;
  const FrameHeader header = clear_header(0, 64);
  listener.send(std::as_bytes(std::span(&header, 1)));
  listener.send(std::vector<std::byte>(64));
  CHECK(listener.outcome() == Outcome{0, Loss::kBadTag});
}

TEST_CASE("records on a plain stream lose the peer") {
  RoomBuffers receive_buffers;
  const auto endpoint = std::move(*TcpEndpoint::create({.max_peers = 1}, receive_buffers));
  auto [ours, theirs] = stream_pair();
  REQUIRE(endpoint->add(std::move(ours)));
  const auto stream = recorded(1);
  REQUIRE(::send(theirs.get(), stream.data(), stream.size(), 0) > 0);
  const auto seen = collect(*endpoint, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].loss == Loss::kBadFrame);
}

}  // namespace phub::transport
