#include "common/transport/shm/shm_endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace phub::transport {

namespace {
// Sockets are looked at once in this many polls; a sleeping endpoint looks at once.
constexpr std::uint32_t kPollsPerSocketCheck = 1024;

// Reads each field once: the peer may change the memory between two looks.
Notice read_once(const volatile Notice& shared) {
  return {.immediate = shared.immediate, .bytes = shared.bytes, .offset = shared.offset};
}
}  // namespace

ShmEndpoint::ShmEndpoint(std::uint32_t max_peers, UniqueFd epoll, ReceiveBuffers* receive_buffers)
    : epoll_(std::move(epoll)), receive_buffers_(receive_buffers), peers_(max_peers) {
  for (PeerId id = max_peers; id-- > 0;) free_.push_back(id);
  active_.reserve(max_peers);
  reports_.reserve(max_peers);
}

Result<std::unique_ptr<ShmEndpoint>> ShmEndpoint::create(std::uint32_t max_peers,
                                                         ReceiveBuffers* receive_buffers) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_status("epoll_create1", Code::kResourceExhausted);
  return std::unique_ptr<ShmEndpoint>(
      new ShmEndpoint(max_peers, std::move(epoll), receive_buffers));
}

Result<PeerId> ShmEndpoint::add(ShmConnection connection) {
  if (free_.empty()) return all_taken(peers_.size());
  const std::uint32_t capacity = connection.capacity;
  if (!std::has_single_bit(capacity) || connection.channel->size() < channel_bytes(capacity)) {
    return Status(Code::kInvalidArgument, "the channel's capacity and size do not fit");
  }
  const PeerId id = free_.back();
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u32 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) != 0) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  free_.pop_back();
  auto* indexes = reinterpret_cast<RingIndexes*>(connection.channel->data());
  auto* notices = reinterpret_cast<Notice*>(indexes + 2);
  const Ring to_core{&indexes[0], notices};
  const Ring to_worker{&indexes[1], notices + capacity};
  Peer& peer = peers_[id];
  peer = Peer{};
  peer.in = connection.core_side ? to_core : to_worker;
  peer.out = connection.core_side ? to_worker : to_core;
  peer.connection = std::move(connection);
  active_.push_back(id);
  return id;
}

void ShmEndpoint::remove(PeerId id) {
  Peer& peer = peers_[id];
  if (!peer.connection.socket) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
  std::erase(active_, id);
  std::erase_if(reports_, [id](const Completion& report) { return report.peer == id; });
  peer = Peer{};
  free_.push_back(id);
}

void ShmEndpoint::close(PeerId id) {
  Peer& peer = peers_[id];
  if (peer.closed) return;
  peer.closed = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
}

void ShmEndpoint::lose(PeerId id, Loss loss) {
  Peer& peer = peers_[id];
  if (peer.lost) return;
  close(id);
  peer.lost = true;
  reports_.push_back({.kind = CompletionKind::kPeerLost, .loss = loss, .peer = id});
}

std::size_t ShmEndpoint::post(PeerId id, std::span<const Write> writes) {
  Peer& peer = peers_[id];
  if (peer.lost) return writes.size();  // nobody will read them; kPeerLost is on its way
  const std::uint32_t capacity = peer.connection.capacity;
  const std::uint32_t in_use = peer.tail - peer.out.indexes->head.load(std::memory_order_acquire);
  if (in_use > capacity) {
    lose(id, Loss::kBadMemory);
    return writes.size();
  }
  std::size_t accepted = 0;
  const std::byte* base = peer.connection.own_memory.data();
  for (; accepted < writes.size() && in_use + accepted < capacity; ++accepted) {
    const Write& write = writes[accepted];
    PHUB_DCHECK(
        write.data >= base && write.data + write.bytes <= base + peer.connection.own_memory.size(),
        "a write comes from shared memory");
    peer.out.notices[peer.tail & (capacity - 1)] = {
        .immediate = write.immediate,
        .bytes = write.bytes,
        .offset = static_cast<std::uint64_t>(write.data - base)};
    ++peer.tail;
  }
  if (accepted > 0) {
    peer.out.indexes->tail.store(peer.tail, std::memory_order_seq_cst);  // before wake's look
    wake(peer);
  }
  return accepted;
}

std::size_t ShmEndpoint::room(PeerId id) const {
  const Peer& peer = peers_[id];
  const std::uint32_t capacity = peer.connection.capacity;
  if (peer.lost) return capacity;
  const std::uint32_t in_use = peer.tail - peer.out.indexes->head.load(std::memory_order_acquire);
  return in_use > capacity ? capacity : capacity - in_use;  // a broken ring is post's to report
}

void ShmEndpoint::wake(Peer& peer) {
  std::uint64_t state = peer.out.indexes->wake.load(std::memory_order_seq_cst);
  if (state == 0) return;
  const auto missing = static_cast<std::int32_t>(static_cast<std::uint32_t>(state) - peer.tail);
  if (missing > 0) return;
  if (!peer.out.indexes->wake.compare_exchange_strong(state, 0, std::memory_order_relaxed)) return;
  const char byte = 1;
  // A full socket means that wake-ups are waiting to be read already.
  [[maybe_unused]] const ssize_t sent =
      ::send(peer.connection.socket.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ShmEndpoint::pending(const Peer& peer, std::uint32_t* count) {
  *count = peer.in.indexes->tail.load(std::memory_order_seq_cst) - peer.head;
  return *count <= peer.connection.capacity;
}

std::size_t ShmEndpoint::receive(PeerId id, Peer& peer, std::span<Completion> completions) {
  std::uint32_t waiting = 0;
  if (!pending(peer, &waiting)) {
    lose(id, Loss::kBadMemory);
    return 0;
  }
  const std::size_t count = std::min<std::size_t>(waiting, completions.size());
  const Mapping& memory = *peer.connection.peer_memory;
  for (std::size_t i = 0; i < count; ++i) {
    const Notice notice = read_once(peer.in.notices[peer.head & (peer.connection.capacity - 1)]);
    if (notice.bytes == 0 || notice.offset > memory.size() ||
        notice.bytes > memory.size() - notice.offset) {
      lose(id, Loss::kBadMemory);
      return i;
    }
    std::byte* const data = memory.data() + notice.offset;
    if (receive_buffers_ != nullptr) {
      const std::byte* place = receive_buffers_->acquire(id, notice.immediate, notice.bytes);
      if (place != data) {
        lose(id, place == nullptr ? Loss::kRefused : Loss::kBadMemory);
        return i;
      }
    }
    ++peer.head;
    completions[i] = {.kind = CompletionKind::kArrived,
                      .peer = id,
                      .immediate = notice.immediate,
                      .bytes = notice.bytes,
                      .data = data};
  }
  if (count > 0) peer.in.indexes->head.store(peer.head, std::memory_order_release);
  return count;
}

std::size_t ShmEndpoint::poll(std::span<Completion> completions) {
  if (++polls_ % kPollsPerSocketCheck == 0) drain_sockets();
  if (guarded_faults() != faults_) lose_failed();
  std::size_t count = 0;
  // Everyone gets a fair part of the room; the turn moves on.
  const std::size_t share =
      std::max<std::size_t>(1, completions.size() / std::max<std::size_t>(1, active_.size()));
  for (std::size_t i = 0; i < active_.size() && count < completions.size(); ++i) {
    const PeerId id = active_[(next_ + i) % active_.size()];
    Peer& peer = peers_[id];
    if (peer.lost || peer.paused) continue;
    const std::size_t room = std::min(share, completions.size() - count);
    const std::size_t arrived = receive(id, peer, completions.subspan(count, room));
    if (arrived == 0 && peer.closed) lose(id, Loss::kClosed);
    count += arrived;
  }
  if (!active_.empty()) next_ = (next_ + 1) % active_.size();
  while (count < completions.size() && !reports_.empty()) {
    completions[count++] = reports_.front();
    reports_.erase(reports_.begin());
  }
  return count;
}

bool ShmEndpoint::arm() {
  if (!reports_.empty()) return false;
  for (const PeerId id : active_) {
    const Peer& peer = peers_[id];
    if (peer.lost || peer.paused) continue;
    peer.in.indexes->wake.store(kSleeping | (peer.head + std::max(1U, peer.expected)),
                                std::memory_order_seq_cst);
  }
  for (const PeerId id : active_) {
    const Peer& peer = peers_[id];
    std::uint32_t waiting = 0;
    if (peer.lost || peer.paused) continue;
    if (peer.closed || !pending(peer, &waiting) || waiting >= std::max(1U, peer.expected)) {
      disarm();
      return false;
    }
  }
  return true;
}

void ShmEndpoint::disarm() {
  for (const PeerId id : active_) {
    if (!peers_[id].lost) peers_[id].in.indexes->wake.store(0, std::memory_order_relaxed);
  }
  drain_sockets();
}

// Some page of somebody's memory could not be read.
void ShmEndpoint::lose_failed() {
  faults_ = guarded_faults();
  for (const PeerId id : active_) {
    const ShmConnection& connection = peers_[id].connection;
    if (connection.channel->has_failed() || connection.peer_memory->has_failed()) {
      lose(id, Loss::kUnreadable);
    }
  }
}

void ShmEndpoint::drain_sockets() {
  std::array<epoll_event, 64> events;  // NOLINT(*-member-init): epoll_wait fills it
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const PeerId id = events[static_cast<std::size_t>(i)].data.u32;
    std::array<std::byte, 256> bytes;  // NOLINT(*-member-init): recv fills it
    const ssize_t got =
        ::recv(peers_[id].connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close(id);
  }
}

}  // namespace phub::transport
