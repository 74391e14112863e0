// Writes that carry a checksum over tcp: it arrives with its write, plain or sealed, and a peer
// that forges a header, or sends one to who has no place for it, is lost.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
namespace {

// Also takes checked writes, and keeps their checksums by room.
class CheckedRooms final : public ReceiveBuffers {
 public:
  std::byte* acquire(PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override {
    return rooms_.acquire(peer, immediate, bytes);
  }
  std::byte* acquire_checked(PeerId peer, std::uint32_t immediate, std::uint32_t bytes,
                             std::uint32_t checksum) override {
    checksums[immediate] = checksum;
    return rooms_.acquire(peer, immediate, bytes);
  }
  void release(PeerId peer, std::byte* data) override { rooms_.release(peer, data); }

  std::array<std::uint32_t, RoomBuffers::kRooms> checksums = {};

 private:
  RoomBuffers rooms_;
};

// Of odd rooms; even ones go without.
struct OddChecksums final : Checksums {
  const std::uint32_t* checksum(PeerId, std::uint32_t immediate) const override {
    return immediate % 2 == 1 ? &words[immediate] : nullptr;
  }
  std::array<std::uint32_t, RoomBuffers::kRooms> words = {};
};

TEST_CASE("a checksum arrives with its write, and others arrive without") {
  for (const bool is_sealed : {false, true}) {
    RoomBuffers unused;
    CheckedRooms rooms;
    OddChecksums checksums;
    const auto from = std::move(*TcpEndpoint::create({.max_peers = 1}, unused));
    const auto to = std::move(*TcpEndpoint::create({.max_peers = 1}, rooms));
    from->send_checksums(checksums);
    auto [near, far] = stream_pair();
    const auto stream = [&](UniqueFd socket, HandshakeRole role) {
      return TcpStream(std::move(socket), is_sealed ? sealed_stream(role) : nullptr);
    };
    const PeerId peer = *from->add(stream(std::move(near), HandshakeRole::kWorker));
    REQUIRE(to->add(stream(std::move(far), HandshakeRole::kServer)));
    const std::vector<std::byte> payload(300, std::byte{9});
    for (std::uint32_t room = 0; room < 20; ++room) {
      // The magic of frames without a checksum is a checksum like others.
      checksums.words[room] = room == 1 ? kFrameMagic : room * 0x01234567U;
      const Write write{.data = payload.data(), .bytes = 100 + room, .immediate = room};
      REQUIRE(from->post(peer, {&write, 1}) == 1);
      const auto arrived = collect(*to, 1);
      REQUIRE(arrived.size() == 1);
      REQUIRE(arrived[0].kind == CompletionKind::kArrived);
      REQUIRE(arrived[0].immediate == room);
      REQUIRE(arrived[0].bytes == 100 + room);
      REQUIRE(std::memcmp(arrived[0].data, payload.data(), 100 + room) == 0);
      REQUIRE(rooms.checksums[room] == (room % 2 == 1 ? checksums.words[room] : 0));
    }
  }
}

Loss loss_after(const FrameHeader& header, ReceiveBuffers& buffers) {
  const auto endpoint =
      std::move(*TcpEndpoint::create({.max_peers = 1, .max_write_bytes = 1000}, buffers));
  auto [near, far] = stream_pair();
  REQUIRE(endpoint->add(std::move(near)));
  REQUIRE(::send(far.get(), &header, sizeof(header), 0) == sizeof(header));
  const auto seen = collect(*endpoint, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].kind == CompletionKind::kPeerLost);
  return seen[0].loss;
}

TEST_CASE("a checked header that is forged, too long or empty ends the connection") {
  const auto header = [](std::uint32_t bytes) {
    return FrameHeader{77, 3, bytes, checked_frame_check(3, bytes, 77)};
  };
  CheckedRooms rooms;
  CHECK(loss_after(header(0), rooms) == Loss::kBadLength);
  CHECK(loss_after(header(1001), rooms) == Loss::kBadLength);
  for (int bit = 0; bit < 128; ++bit) {
    FrameHeader forged = header(100);
    std::array<unsigned char, sizeof(forged)> bytes;
    std::memcpy(bytes.data(), &forged, sizeof(forged));
    bytes[static_cast<std::size_t>(bit) / 8] ^= static_cast<unsigned char>(1 << (bit % 8));
    std::memcpy(&forged, bytes.data(), sizeof(forged));
    REQUIRE(loss_after(forged, rooms) == Loss::kBadFrame);
  }
}

TEST_CASE("who has no place for checksums refuses a write with one") {
  RoomBuffers rooms;
  CHECK(loss_after({77, 3, 100, checked_frame_check(3, 100, 77)}, rooms) == Loss::kRefused);
  CHECK(rooms.open == 0);
}

}  // namespace
}  // namespace phub::transport
