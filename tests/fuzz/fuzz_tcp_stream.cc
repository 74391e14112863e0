// Any bytes on an authenticated stream: the endpoint reports arrivals or a lost peer, and gives
// every place back.
#include <cstdlib>

#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
std::unique_ptr<EndpointPair> loopback_pair(int) { return nullptr; }
}  // namespace phub::transport

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phub::transport;  // NOLINT(google-build-using-namespace)
  RoomBuffers receive_buffers;
  auto endpoint = std::move(*TcpEndpoint::create(
      {.max_peers = 1, .max_write_bytes = RoomBuffers::kRoomBytes}, receive_buffers));
  auto [ours, theirs] = stream_pair();
  const PeerId peer = *endpoint->add(std::move(ours));
  // Half of the inputs begin with a header that is right, or hardly one would get past it.
  if (size > 8 && data[0] % 2 == 0) {
    const std::uint32_t bytes = data[1] + 1U;
    const std::uint32_t immediate = data[2] % 80U;
    const FrameHeader header = {kFrameMagic, immediate, bytes, frame_check(immediate, bytes)};
    ::send(theirs.get(), &header, sizeof(header), MSG_DONTWAIT);
  }
  ::send(theirs.get(), data, size, MSG_DONTWAIT);
  theirs.reset();
  std::vector<Completion> batch(4);
  bool lost = false;
  for (int i = 0; i < 1000 && !lost; ++i) {
    const std::size_t count = endpoint->poll(batch);
    for (std::size_t j = 0; j < count; ++j) {
      if (batch[j].kind == CompletionKind::kArrived) receive_buffers.release(peer, batch[j].data);
      lost = lost || batch[j].kind == CompletionKind::kPeerLost;
    }
  }
  endpoint->remove(peer);
  if (!lost || receive_buffers.open != 0) std::abort();
  return 0;
}
