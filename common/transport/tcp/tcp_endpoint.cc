#include "common/transport/tcp/tcp_endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace phub::transport {

namespace {
// What a sleeper lets come together: less is not worth the calls that say so, more would leave the
// cache before it is read.
constexpr std::uint64_t kLeastAwaited = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostAwaited = std::uint64_t{512} << 10;

// EPOLL_CTL_ADD, or EPOLL_CTL_MOD.
bool watch(int epoll, int operation, int socket, PeerId id, bool wants_write) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (wants_write ? EPOLLOUT : 0U);
  event.data.u32 = id;
  return ::epoll_ctl(epoll, operation, socket, &event) == 0;
}

// `checksums` null: writes have none.
void push(const Checksums* checksums, PeerId id, const Write& write, FrameQueue& frames) {
  if (checksums == nullptr) return frames.push(write);
  const std::uint32_t* const checksum = checksums->checksum(id, write.immediate);
  checksum == nullptr ? frames.push(write) : frames.push_checked(write, *checksum);
}

}  // namespace

TcpEndpoint::TcpEndpoint(const TcpOptions& options, ReceiveBuffers& receive_buffers, UniqueFd epoll)
    : options_(options),
      receive_buffers_(receive_buffers),
      epoll_(std::move(epoll)),
      peers_(options.max_peers) {
  for (PeerId id = options.max_peers; id-- > 0;) free_.push_back(id);
  ready_.reserve(options.max_peers);
  lost_.reserve(options.max_peers);
}

TcpEndpoint::~TcpEndpoint() {
  for (PeerId id = 0; id < peers_.size(); ++id) {
    if (peers_[id].socket) remove(id);
  }
}

Result<std::unique_ptr<TcpEndpoint>> TcpEndpoint::create(const TcpOptions& options,
                                                         ReceiveBuffers& receive_buffers) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_status("epoll_create1", Code::kResourceExhausted);
  return std::unique_ptr<TcpEndpoint>(new TcpEndpoint(options, receive_buffers, std::move(epoll)));
}

Result<PeerId> TcpEndpoint::add(TcpStream stream) {
  UniqueFd& socket = stream.socket;
  if (free_.empty()) return all_taken(peers_.size());
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const PeerId id = free_.back();
  if (!watch(epoll_.get(), EPOLL_CTL_ADD, socket.get(), id, false)) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  free_.pop_back();
  peers_[id] = Peer{};
  peers_[id].socket = std::move(socket);
  peers_[id].sealed = std::move(stream.sealed);
  return id;
}

void TcpEndpoint::remove(PeerId id) {
  Peer& peer = peers_[id];
  if (!peer.socket) return;
  if (peer.payload.data != nullptr) receive_buffers_.release(id, peer.payload.data);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
  std::erase(ready_, id);
  std::erase(lost_, id);
  peer = Peer{};
  free_.push_back(id);
}

void TcpEndpoint::lose(PeerId id, Loss loss) {
  Peer& peer = peers_[id];
  if (peer.is_lost()) return;
  peer.loss = loss;
  // The descriptor stays open, but says nothing any more until the owner removes the peer.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
  peer.readable = false;
  std::erase(ready_, id);
  lost_.push_back(id);
}

std::size_t TcpEndpoint::post(PeerId id, std::span<const Write> writes) {
  Peer& peer = peers_[id];
  if (peer.is_lost()) return writes.size();  // nobody will read them; kPeerLost is on its way
  std::size_t accepted = 0;
  for (; accepted < writes.size(); ++accepted) {
    const Write& write = writes[accepted];
    if (peer.frames.size() == FrameQueue::kDepth) {
      // Fewer are accepted only when the socket is full, whose end wakes the owner.
      if (!peer.wants_write) send(id, peer);
      if (peer.is_lost()) return writes.size();
      if (peer.frames.size() == FrameQueue::kDepth) break;
    }
    PHUB_DCHECK(write.bytes > 0 && write.bytes <= options_.max_write_bytes, "size of a write");
    push(checksums_, id, write, peer.frames);
  }
  if (!peer.wants_write) send(id, peer);
  return accepted;
}

std::size_t TcpEndpoint::room(PeerId id) const {
  const Peer& peer = peers_[id];
  return FrameQueue::kDepth - (peer.is_lost() ? 0 : peer.frames.size());
}

void TcpEndpoint::send(PeerId id, Peer& peer) {
  peer.sealed ? send(id, peer, *peer.sealed) : send(id, peer, peer.plain);
}

template <typename Stream>
void TcpEndpoint::send(PeerId id, Peer& peer, Stream& stream) {
  while (!peer.is_lost() && !stream.is_all_sent(peer.frames)) {
    std::array<iovec, FrameQueue::kMostParts> parts;  // NOLINT(*-member-init): gather fills it
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = stream.gather(peer.frames, parts);
    const ssize_t bytes = ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes >= 0) {
      stream.sent(peer.frames, static_cast<std::size_t>(bytes));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!std::exchange(peer.wants_write, true)) {
        watch(epoll_.get(), EPOLL_CTL_MOD, peer.socket.get(), id, true);
      }
      return;
    }
    // The reason to tell comes from reading: a peer that closed after an error said so before.
    lose(id, errno == EPIPE || errno == ECONNRESET ? Loss::kClosed : Loss::kError);
  }
  if (!peer.is_lost() && std::exchange(peer.wants_write, false)) {
    watch(epoll_.get(), EPOLL_CTL_MOD, peer.socket.get(), id, false);
  }
}

void TcpEndpoint::pause(PeerId id, bool paused) {
  Peer& peer = peers_[id];
  if (peer.is_lost() || std::exchange(peer.paused, paused) == paused || !peer.readable) return;
  paused ? static_cast<void>(std::erase(ready_, id)) : announce(id);
}

void TcpEndpoint::announce(PeerId id) {
  if (!receive_buffers_.reads_later(id)) ready_.push_back(id);
}

void TcpEndpoint::expect(PeerId id, std::uint32_t, std::uint64_t bytes) {
  peers_[id].expected = bytes;
  expects_ = true;
}

// A sleeper that needs many bytes is not to be woken by the first of them. What is waited for never
// exceeds what is still to come: headers and all of a payload that has been begun are left out of
// it. How much of a sealed record has been read already only its stream knows, so there each byte
// wakes.
bool TcpEndpoint::arm() {
  if (!ready_.empty() || !lost_.empty()) return false;
  if (!expects_) return true;
  for (Peer& peer : peers_) {
    if (!peer.socket || peer.is_lost() || peer.sealed) continue;
    const std::uint64_t begun = peer.payload.bytes;
    if (peer.expected < begun + kLeastAwaited) continue;
    peer.await(static_cast<int>(std::min(peer.expected - begun, kMostAwaited)));
  }
  return true;
}

// What came meanwhile and was less than a socket waited for is told now: the kernel looks when the
// bound is lowered.
void TcpEndpoint::disarm() {
  if (!expects_) return;
  for (Peer& peer : peers_) {
    if (peer.socket) peer.await(1);
  }
}

void TcpEndpoint::Peer::await(int bytes) {
  if (awaited == bytes) return;
  // A socket that refuses goes on waking for each byte. The kernel takes less where its buffer is
  // smaller, and wakes in any case when the other end has closed.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
  awaited = bytes;
}

std::size_t TcpEndpoint::poll(std::span<Completion> completions) {
  std::size_t count = drain_reports(completions);
  look();
  count += read_ready(completions.subspan(count));
  return count + drain_reports(completions.subspan(count));
}

// What has changed since the last look.
void TcpEndpoint::look() {
  std::array<epoll_event, 64> events;  // NOLINT(*-member-init): epoll_wait fills it
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const PeerId id = event.data.u32;
    Peer& peer = peers_[id];
    if ((event.events & EPOLLOUT) != 0U && peer.wants_write) send(id, peer);
    if (peer.is_lost()) continue;
    if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0U) peer.ended = true;
    // A connection that is broken is not worth holding back.
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0U) pause(id, false);
    if (!peer.ended && (event.events & EPOLLIN) == 0U) continue;
    if (!std::exchange(peer.readable, true) && !peer.paused) announce(id);
  }
}

std::size_t TcpEndpoint::read_ready(std::span<Completion> completions) {
  std::size_t count = 0;
  for (std::size_t turns = ready_.size(); turns > 0 && count < completions.size(); --turns) {
    const PeerId id = ready_.front();
    ready_.erase(ready_.begin());
    const std::size_t most = std::min(completions.size() - count, kReadsPerPoll);
    const Taken taken = read(id, completions.subspan(count, most));
    count += taken.writes;
    if (taken.more) ready_.push_back(id);
  }
  return count;
}

TcpEndpoint::Taken TcpEndpoint::read(PeerId id, std::span<Completion> completions) {
  Peer& peer = peers_[id];
  const std::size_t count = peer.sealed ? receive(id, peer, *peer.sealed, completions)
                                        : receive(id, peer, peer.plain, completions);
  return {.writes = count, .more = peer.readable};
}

std::size_t TcpEndpoint::drain_reports(std::span<Completion> completions) {
  std::size_t count = 0;
  while (count < completions.size() && !lost_.empty()) {
    const PeerId id = lost_.back();
    lost_.pop_back();
    completions[count++] = {.kind = CompletionKind::kPeerLost, .loss = peers_[id].loss, .peer = id};
  }
  return count;
}

void TcpEndpoint::open_frame(PeerId id, Peer& peer) {
  const FrameHeader& header = peer.header;
  if (header.magic != kFrameMagic || header.check != frame_check(header.immediate, header.bytes)) {
    return open_checked_frame(id, peer);
  }
  if (header.bytes == 0 || header.bytes > options_.max_write_bytes) {
    return lose(id, Loss::kBadLength);
  }
  std::byte* const place = receive_buffers_.acquire(id, header.immediate, header.bytes);
  if (place == nullptr) return lose(id, Loss::kRefused);
  peer.payload = {place, header.bytes};
}

void TcpEndpoint::open_checked_frame(PeerId id, Peer& peer) {
  const FrameHeader& header = peer.header;
  const std::uint32_t checksum = header.magic;
  if (header.check != checked_frame_check(header.immediate, header.bytes, checksum)) {
    return lose(id, Loss::kBadFrame);
  }
  if (header.bytes == 0 || header.bytes > options_.max_write_bytes) {
    return lose(id, Loss::kBadLength);
  }
  std::byte* const place =
      receive_buffers_.acquire_checked(id, header.immediate, header.bytes, checksum);
  if (place == nullptr) return lose(id, Loss::kRefused);
  peer.payload = {place, header.bytes};
}

TcpEndpoint::Peer::Read TcpEndpoint::Peer::read_some(const std::array<iovec, 2>& parts) {
  const int count = parts[1].iov_len == 0 ? 1 : 2;
  ssize_t bytes = 0;
  do {
    bytes = ::readv(socket.get(), parts.data(), count);
  } while (bytes < 0 && errno == EINTR);
  if (bytes > 0) {
    const std::size_t wanted = parts[0].iov_len + parts[1].iov_len;
    // The socket is empty now, and says when it no longer is, unless its end comes next.
    if (static_cast<std::size_t>(bytes) < wanted && !ended) readable = false;
    return {.bytes = static_cast<std::size_t>(bytes)};
  }
  readable = false;
  if (bytes == 0) return {.loss = Loss::kClosed};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
  return {.loss = errno == ECONNRESET ? Loss::kClosed : Loss::kError};
}

template <typename Stream>
std::size_t TcpEndpoint::receive(PeerId id, Peer& peer, Stream& stream,
                                 std::span<Completion> completions) {
  std::size_t count = 0;
  while (peer.readable && count < completions.size()) {
    const Peer::Read read = peer.read_some(stream.room(peer.payload));
    if (read.bytes == 0) {
      if (read.loss != Loss::kNone) lose(id, read.loss);
      break;
    }
    StreamEvent event = stream.arrived(read.bytes, peer.payload);
    if (event == StreamEvent::kPayload) {
      completions[count++] = {.kind = CompletionKind::kArrived,
                              .peer = id,
                              .immediate = peer.header.immediate,
                              .bytes = peer.header.bytes,
                              .data = peer.payload.data};
      peer.payload = {};
      event = stream.arrived(0, {});
    }
    if (event == StreamEvent::kForged) lose(id, Loss::kBadTag);
    if (event == StreamEvent::kHeader) {
      peer.header = stream.header();
      open_frame(id, peer);
    }
  }
  return count;
}

}  // namespace phub::transport
