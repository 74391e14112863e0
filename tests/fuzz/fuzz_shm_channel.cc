// Any contents of a channel: arrivals lie within the shared memory, or the peer is lost.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
std::unique_ptr<EndpointPair> loopback_pair(int) { return nullptr; }
}  // namespace phub::transport

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phub;             // NOLINT(google-build-using-namespace)
  using namespace phub::transport;  // NOLINT(google-build-using-namespace)
  constexpr std::uint32_t kCapacity = 16;
  auto channel = std::move(*SharedMemory::create("channel", channel_bytes(kCapacity)));
  auto memory = std::move(*SharedMemory::create("memory", 4096));
  std::memcpy(channel->data(), data, std::min(size, channel->size()));
  auto endpoint = std::move(*ShmEndpoint::create(1));
  auto [ours, theirs] = stream_pair();
  ShmConnection connection;
  connection.socket = std::move(ours);
  connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
  connection.capacity = kCapacity;
  connection.core_side = true;
  connection.own_memory = {memory->data(), memory->size()};
  connection.peer_memory = std::move(*Mapping::of_file(memory->fd(), 4096, false));
  const std::byte* first = connection.peer_memory->data();
  const PeerId peer = *endpoint->add(std::move(connection));
  std::vector<Completion> batch(8);
  for (int i = 0; i < 4; ++i) {
    const std::size_t count = endpoint->poll(batch);
    for (std::size_t j = 0; j < count; ++j) {
      if (batch[j].kind != CompletionKind::kArrived) continue;
      if (batch[j].data < first || batch[j].data + batch[j].bytes > first + 4096) std::abort();
    }
    const Write write{.data = memory->data(), .bytes = 8, .immediate = 1};
    endpoint->post(peer, {&write, 1});
  }
  if (endpoint->arm()) endpoint->disarm();
  endpoint->remove(peer);
  return 0;
}
