// An encrypted stream that is cut, changed and sent in pieces of any length: what arrives is what
// was sealed, in its order, up to the first changed byte; then the peer is lost, and every place is
// given back.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/transports/endpoint_pair.h"

namespace {

using namespace phub::transport;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kFrames = 4;

// Short ones, and one of two records.
std::uint32_t bytes_of(std::uint32_t frame) { return frame == 2 ? 40'000 : 1 + 30 * frame; }

std::vector<std::byte> payload_of(std::uint32_t frame) {
  return std::vector<std::byte>(bytes_of(frame), static_cast<std::byte>(frame + 1));
}

struct Recorded {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> ends;  // of each frame
};

Recorded record() {
  const auto worker = sealed_stream(HandshakeRole::kWorker);
  Recorded recorded;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const auto payload = payload_of(i);
    append_sent(*worker, {.data = payload.data(), .bytes = bytes_of(i), .immediate = i},
                recorded.bytes);
    recorded.ends.push_back(recorded.bytes.size());
  }
  return recorded;
}

void require(bool is_right) {
  if (!is_right) std::abort();
}

}  // namespace

// Each three bytes of the input: how much to send next, and what to change in its last byte.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Recorded kRecorded = record();
  RoomBuffers receive_buffers;
  const auto endpoint = std::move(*TcpEndpoint::create(
      {.max_peers = 1, .max_write_bytes = RoomBuffers::kRoomBytes}, receive_buffers));
  auto [ours, theirs] = stream_pair();
  const PeerId peer = *endpoint->add({std::move(ours), sealed_stream(HandshakeRole::kServer)});
  std::vector<Completion> batch(4);
  std::uint32_t arrived = 0;
  bool lost = false;
  const auto poll = [&] {
    const std::size_t count = endpoint->poll(batch);
    for (std::size_t i = 0; i < count; ++i) {
      lost = lost || batch[i].kind == CompletionKind::kPeerLost;
      if (batch[i].kind != CompletionKind::kArrived) continue;
      const auto expected = payload_of(arrived);
      require(batch[i].immediate == arrived && batch[i].bytes == expected.size());
      require(std::memcmp(batch[i].data, expected.data(), expected.size()) == 0);
      receive_buffers.release(peer, batch[i].data);
      ++arrived;
    }
  };
  std::size_t sent = 0;
  std::size_t changed = kRecorded.bytes.size();  // the first that is
  for (std::size_t i = 0; i + 2 < size && sent < kRecorded.bytes.size() && !lost; i += 3) {
    const std::size_t wanted = 1 + data[i] + 256U * data[i + 1];
    const std::size_t count = std::min(wanted, kRecorded.bytes.size() - sent);
    std::vector<std::byte> piece(count);
    std::copy_n(kRecorded.bytes.begin() + static_cast<std::ptrdiff_t>(sent), count, piece.begin());
    const auto change = static_cast<std::byte>(data[i + 2] < 200 ? 0 : data[i + 2]);
    if (change != std::byte{0}) changed = std::min(changed, sent + count - 1);
    piece.back() ^= change;
    ::send(theirs.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    sent += count;
    poll();
  }
  theirs.reset();
  for (int i = 0; i < 1000 && !lost; ++i) poll();
  const auto whole = static_cast<std::uint32_t>(
      std::count_if(kRecorded.ends.begin(), kRecorded.ends.end(),
                    [&](std::size_t end) { return end <= std::min(sent, changed); }));
  require(lost && arrived == whole);
  endpoint->remove(peer);
  require(receive_buffers.open == 0);
  return 0;
}
