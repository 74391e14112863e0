// A TcpEndpoint's encrypted streams.
#include <sys/uio.h>

#include "common/transport/tcp/tcp_endpoint.h"

namespace phub::transport {

// A sealed frame counts as sent: what it came from is not read again.
std::size_t TcpEndpoint::gather_sealed(Peer& peer, std::span<iovec> vectors) {
  SealedStream& sealed = *peer.sealed;
  const bool is_free = sealed.is_all_sent();
  while (is_free && peer.sent != peer.queued) {
    const Frame& frame = peer.frames[peer.sent % kSendDepth];
    peer.offset = sealed.seal(frame.header, frame.data, peer.offset);
    if (peer.offset < sizeof(FrameHeader) + frame.header.bytes) break;
    peer.offset = 0;
    ++peer.sent;
  }
  const auto unsent = sealed.unsent();
  // iovec is not const-correct; sendmsg only reads.
  vectors[0] = {const_cast<std::byte*>(unsent.data()), unsent.size()};  // NOLINT(*-const-cast)
  return 1;
}

std::size_t TcpEndpoint::receive_sealed(PeerId id, Peer& peer, std::span<Completion> completions) {
  SealedStream& sealed = *peer.sealed;
  std::size_t count = 0;
  while (peer.readable && count < completions.size()) {
    const SealedStream::Target target{peer.payload, peer.payload ? peer.header.bytes : 0};
    const auto vectors = sealed.room(target);
    const std::size_t bytes = read_some(peer, vectors);
    if (bytes == 0) break;
    auto event = sealed.arrived(bytes, target);
    if (event == SealedStream::Event::kPayload) {
      completions[count++] = arrived(id, peer);
      peer.payload = nullptr;
      event = sealed.arrived(0, {});
    }
    if (event == SealedStream::Event::kForged) lose(peer, Loss::kBadTag);
    if (event == SealedStream::Event::kHeader) {
      peer.header = sealed.header();
      open_frame(id, peer);
    }
  }
  return count;
}

}  // namespace phub::transport
