#include "common/transport/verbs/verbs_endpoint.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace phub::transport {

namespace {
// Streams are looked at once in this many polls; a sleeping endpoint looks at once.
constexpr std::uint32_t kPollsPerStreamCheck = 1024;
constexpr int kCompletionsPerTake = 32;
constexpr std::uint64_t kChannelEvent = ~0ULL;

// A completion is asked for often enough that three quarters of the queue are always usable.
std::uint32_t signal_interval(std::size_t depth) {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(depth) / 4);
}

Loss loss_of(const ibv_wc& done) {
  switch (done.status) {
    case IBV_WC_RETRY_EXC_ERR:  // nobody answers
      return Loss::kClosed;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_LOC_PROT_ERR:
      return Loss::kBadMemory;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return Loss::kBadLength;
    default:
      return Loss::kError;
  }
}
}  // namespace

std::size_t VerbsEndpoint::room(PeerId id) const {
  const Peer& peer = peers_[id];
  // One place is the fence's, see drain.
  const std::size_t depth = peer.flights.size() - 1;
  return peer.lost ? depth : depth - (peer.posted - peer.retired);
}

std::size_t VerbsEndpoint::post(PeerId id, std::span<const Write> writes) {
  Peer& peer = peers_[id];
  std::size_t accepted = 0;
  while (accepted < writes.size() && !peer.lost) {
    const std::size_t count = std::min({writes.size() - accepted, room(id), kChain});
    if (count == 0) return accepted;
    post_chain(id, peer, writes.subspan(accepted, count));
    accepted += count;
  }
  return writes.size();  // those to a lost peer are swallowed; peer_lost is on its way
}

void VerbsEndpoint::post_chain(PeerId id, Peer& peer, std::span<const Write> writes) {
  const VerbsConnection& connection = peer.connection;
  const std::uint32_t interval = signal_interval(peer.flights.size());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Write& write = writes[i];
    const std::uint64_t offset = layout_.offset(id, write.immediate);
    PHUB_DCHECK(offset + write.bytes <= connection.peer.window_bytes, "a write fits the window");
    peer.flights[peer.posted % peer.flights.size()] = {write.immediate, write.bytes,
                                                       write.signaled};
    ++peer.posted;
    sources_[i] = {.addr = reinterpret_cast<std::uint64_t>(write.data),
                   .length = write.bytes,
                   .lkey = connection.source_key};
    ibv_send_wr& request = sends_[i];
    const bool signaled = write.signaled || peer.posted % interval == 0;
    request.wr_id = peer.posted;  // its completion retires everything before
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = signaled ? unsigned{IBV_SEND_SIGNALED} : 0U;
    request.imm_data = htonl(write.immediate);
    request.wr.rdma.remote_addr = connection.peer.window_address + offset;
    request.wr.rdma.rkey = connection.peer.window_key;
    request.next = i + 1 < writes.size() ? &sends_[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.pair.get(), sends_.data(), &bad) != 0) lose(id, Loss::kError);
}

std::size_t VerbsEndpoint::poll(std::span<Completion> completions) {
  if (++polls_ >= kPollsPerStreamCheck) look_at_streams();
  if (reports_.empty()) {
    const std::size_t taken = take_completions();
    if (taken == 0 && closing_ > 0) report_closed();
  }
  return reports_.take(completions);
}

std::size_t VerbsEndpoint::take_completions() {
  std::array<ibv_wc, kCompletionsPerTake> done;  // NOLINT(*-member-init): ibv_poll_cq fills it
  const int count = ibv_poll_cq(queue_.get(), kCompletionsPerTake, done.data());
  for (int i = 0; i < count; ++i) handle(done[static_cast<std::size_t>(i)]);
  return static_cast<std::size_t>(std::max(0, count));
}

void VerbsEndpoint::handle(const ibv_wc& done) {
  const auto id = by_pair_.find(done.qp_num);
  if (!id) return;  // of a connection that is gone
  Peer& peer = peers_[*id];
  if (peer.lost) return;
  if (done.status != IBV_WC_SUCCESS) {
    // A receive that fails first, before any send of ours: the peer asked for what it may not.
    return lose(*id, done.wr_id == kReceiveId ? Loss::kBadMemory : loss_of(done));
  }
  if (done.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    return on_arrived(*id, peer, {ntohl(done.imm_data), done.byte_len});
  }
  if ((done.opcode & IBV_WC_RECV) != 0) return lose(*id, Loss::kBadFrame);
  on_sent(*id, peer, done);
}

void VerbsEndpoint::on_sent(PeerId id, Peer& peer, const ibv_wc& done) {
  const auto upto = static_cast<std::uint32_t>(done.wr_id);
  for (; peer.retired != upto; ++peer.retired) {
    const Flight& flight = peer.flights[peer.retired % peer.flights.size()];
    if (!flight.report) continue;
    reports_.push({.kind = CompletionKind::kWritten,
                   .peer = id,
                   .immediate = flight.immediate,
                   .bytes = flight.bytes});
  }
}

void VerbsEndpoint::on_arrived(PeerId id, Peer& peer, const Arrival& arrival) {
  ++peer.owed;
  if (peer.paused) return peer.deferred.push_back(arrival);
  std::byte* data = placement_.place(id, arrival.immediate, arrival.bytes);
  if (data == nullptr) return lose(id, Loss::kRefused);
  reports_.push({.kind = CompletionKind::kArrived,
                 .peer = id,
                 .immediate = arrival.immediate,
                 .bytes = arrival.bytes,
                 .data = data});
  const std::size_t batch = std::min<std::size_t>(kChain, (peer.connection.depths.receive + 1) / 2);
  if (peer.owed >= batch) give_back(peer);
}

void VerbsEndpoint::give_back(Peer& peer) {
  while (peer.owed > 0) {
    const std::size_t count = std::min<std::size_t>(peer.owed, kChain);
    for (std::size_t i = 0; i < count; ++i) {
      receives_[i].next = i + 1 < count ? &receives_[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    // It fails only on a broken queue pair, which a completion tells.
    if (ibv_post_recv(peer.connection.pair.get(), receives_.data(), &bad) != 0) return;
    peer.owed -= static_cast<std::uint32_t>(count);
  }
}

void VerbsEndpoint::pause(PeerId id, bool paused) {
  Peer& peer = peers_[id];
  if (peer.paused == paused) return;
  peer.paused = paused;
  if (paused || peer.lost) return;
  peer.owed -= static_cast<std::uint32_t>(peer.deferred.size());
  for (const Arrival& arrival : peer.deferred) {
    if (!peer.lost) on_arrived(id, peer, arrival);
  }
  peer.deferred.clear();
  if (!peer.lost) give_back(peer);
}

void VerbsEndpoint::lose(PeerId id, Loss loss) {
  Peer& peer = peers_[id];
  if (peer.lost) return;
  peer.lost = true;
  if (peer.closed) --closing_;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
  reports_.push({.kind = CompletionKind::kPeerLost, .loss = loss, .peer = id});
}

bool VerbsEndpoint::arm() {
  if (!reports_.empty() || closing_ > 0) return false;
  if (ibv_req_notify_cq(queue_.get(), 0) != 0) return false;
  // What came before the request raises no event.
  return take_completions() == 0;
}

void VerbsEndpoint::disarm() { look_at_streams(); }

void VerbsEndpoint::look_at_streams() {
  polls_ = 0;
  std::array<epoll_event, 64> events;  // NOLINT(*-member-init): epoll_wait fills it
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
    if (what == kChannelEvent) {
      ibv_cq* queue = nullptr;
      void* context = nullptr;
      while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
      continue;
    }
    Peer& peer = peers_[what];
    // Nothing is ever sent on the stream: it became readable because it ended.
    if (!peer.closed && !peer.lost) {
      peer.closed = true;
      ++closing_;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
    }
  }
}

// The queue is empty: what the closed peers had written has been taken.
void VerbsEndpoint::report_closed() {
  for (PeerId id = 0; id < peers_.size() && closing_ > 0; ++id) {
    if (peers_[id].closed && !peers_[id].lost) lose(id, Loss::kClosed);
  }
}

}  // namespace phub::transport
