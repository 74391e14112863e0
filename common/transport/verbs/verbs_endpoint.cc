#include "common/transport/verbs/verbs_endpoint.h"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace phub::transport {

namespace {
// Streams are looked at once in this many polls; a sleeping endpoint looks at once.
constexpr std::uint32_t kPollsPerStreamCheck = 1024;
constexpr std::size_t kCompletionsPerTake = 64;
constexpr std::uint64_t kChannelEvent = ~0ULL;  // of epoll: not a peer's number
// A send is signaled, a completion asked for, once in a quarter of the queue's length: three
// quarters are always usable.
constexpr std::uint32_t kSignalsPerQueue = 4;

// Of a completion that failed, or of one that no write with immediate makes.
Loss loss_of(const ibv_wc& done, bool is_receive) {
  if (done.status == IBV_WC_SUCCESS) return Loss::kBadFrame;
  // A receive that fails first, before any send of ours: the peer asked for what it may not.
  if (is_receive) return Loss::kBadMemory;
  switch (done.status) {
    case IBV_WC_RETRY_EXC_ERR:  // nobody replies
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

std::uint32_t key_of(const VerbsConnection& connection, const std::byte* data) {
  const auto& second = connection.second;
  const auto offset = reinterpret_cast<std::uintptr_t>(data) -
                      reinterpret_cast<std::uintptr_t>(second.bytes.data());
  return offset < second.bytes.size() ? second.key : connection.source_key;
}

// The write then ends with its checksum, if it has one.
void add_checksum(const Checksums& checksums, PeerId id, const VerbsConnection& connection,
                  ibv_send_wr& request, std::uint32_t immediate) {
  const std::uint32_t* const checksum = checksums.checksum(id, immediate);
  request.num_sge = checksum == nullptr ? 1 : 2;
  request.sg_list[1] = {.addr = reinterpret_cast<std::uint64_t>(checksum),
                        .length = sizeof(*checksum),
                        .lkey = connection.source_key};
}
}  // namespace

VerbsEndpoint::VerbsEndpoint(std::unique_ptr<verbs::Connector> connector, std::uint32_t max_peers,
                             ReceiveBuffers& receive_buffers, const Layout& layout)
    : connector_(std::move(connector)),
      queue_(connector_->queue()),
      receive_buffers_(receive_buffers),
      layout_(layout),
      peers_(max_peers),
      departures_(max_peers),
      sends_(verbs::kChain),
      sources_(2 * verbs::kChain),
      receives_(verbs::kChain) {
  for (PeerId id = max_peers; id-- > 0;) free_.push_back(id);
  for (std::size_t i = 0; i < verbs::kChain; ++i) {
    sends_[i].sg_list = &sources_[2 * i];
    sends_[i].num_sge = 1;
    sends_[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    if (i + 1 == verbs::kChain) break;
    sends_[i].next = &sends_[i + 1];
    receives_[i].next = &receives_[i + 1];
  }
}

Result<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::create(
    std::shared_ptr<const verbs::OpenDevice> device, std::uint32_t max_peers,
    ReceiveBuffers& receive_buffers, const Layout& layout) {
  if (max_peers > verbs::kMostPeers) {
    return Status(Code::kInvalidArgument, "an RDMA endpoint has at most " +
                                              std::to_string(verbs::kMostPeers) +
                                              " connections, not " + std::to_string(max_peers) +
                                              " (lower connections_per_core)");
  }
  PHUB_ASSIGN_OR_RETURN(auto connector, verbs::Connector::create(std::move(device)));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_status("epoll_create1", Code::kResourceExhausted);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kChannelEvent;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connector->channel().fd, &event) != 0) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  std::unique_ptr<VerbsEndpoint> endpoint(
      new VerbsEndpoint(std::move(connector), max_peers, receive_buffers, layout));
  endpoint->epoll_ = std::move(epoll);
  return endpoint;
}

VerbsEndpoint::~VerbsEndpoint() {
  for (PeerId id = 0; id < peers_.size(); ++id) {
    if (peers_[id].connection.pair) remove(id);
  }
  while (leaving() > 0) ::sched_yield();
}

Result<PeerId> VerbsEndpoint::add(VerbsConnection connection) {
  if (free_.empty()) return all_taken(peers_.size());
  const PeerId id = free_.back();
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) != 0) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  reports_.reserve(2 * std::size_t{connector_->reserved()} + peers_.size());
  Peer& peer = peers_[id];
  peer = Peer{};
  peer.tag = verbs::make_tag(id, connections_++);
  peer.depth = connection.depths.send - verbs::Departures::kSpareSends;
  peer.signal_interval = std::max(1U, connection.depths.send / kSignalsPerQueue);
  peer.deferred.reserve(connection.depths.receive);
  peer.connection = std::move(connection);
  peer.owed = peer.connection.depths.receive;
  if (const int error = post_receives(peer); error != 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
    peer = Peer{};
    errno = error;
    return errno_status("ibv_post_recv", Code::kResourceExhausted);
  }
  free_.pop_back();
  return id;
}

void VerbsEndpoint::remove(PeerId id) {
  Peer& peer = peers_[id];
  if (!peer.connection.pair) return;
  if (peer.closed && !peer.lost) --closing_;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
  reports_.erase(id);
  if (peer.lost || peer.closed) {
    departures_.end(std::move(peer.connection));
  } else {
    departures_.begin(std::move(peer.connection), {peer.tag, peer.posted, peer.retired},
                      std::chrono::steady_clock::now());
  }
  peer = Peer{};
  free_.push_back(id);
}

std::size_t VerbsEndpoint::leaving() {
  if (departures_.leaving() == 0) return 0;
  if (reports_.empty()) take_aside();
  departures_.look(std::chrono::steady_clock::now());
  return departures_.leaving();
}

std::size_t VerbsEndpoint::room(PeerId id) const {
  const Peer& peer = peers_[id];
  return peer.lost ? peer.depth : peer.depth - (peer.posted - peer.retired);
}

std::size_t VerbsEndpoint::post(PeerId id, std::span<const Write> writes) {
  Peer& peer = peers_[id];
  std::size_t accepted = 0;
  while (accepted < writes.size() && !peer.lost) {
    const std::size_t count = std::min({writes.size() - accepted, room(id), verbs::kChain});
    if (count == 0) return accepted;
    post_chain(id, peer, writes.subspan(accepted, count));
    accepted += count;
  }
  return writes.size();  // those to a lost peer are swallowed; kPeerLost is on its way
}

void VerbsEndpoint::send_checksums(const Checksums& checksums) { checksums_ = &checksums; }

void VerbsEndpoint::post_chain(PeerId id, Peer& peer, std::span<const Write> writes) {
  const VerbsConnection& connection = peer.connection;
  const std::uint64_t window = connection.peer.window_address;
  const std::byte* const mirrored = connection.mirrored;
  const std::uint32_t interval = peer.signal_interval;
  const std::uint32_t source_key = key_of(connection, writes.front().data);
  const std::uint32_t window_key = connection.peer.window_key;
  std::uint64_t request_id = verbs::request_id(peer.tag, peer.posted);
  ibv_send_wr* request = sends_.data();
  for (const Write& write : writes) {
    std::uint64_t offset = 0;
    if (mirrored != nullptr) {
      offset = static_cast<std::uint64_t>(write.data - mirrored);
    } else {
      offset = layout_.offset(id, write);
      if (checksums_ != nullptr) {
        add_checksum(*checksums_, id, connection, *request, write.immediate);
      }
    }
    PHUB_DCHECK(offset + write.bytes <= connection.peer.window_bytes, "a write fits the window");
    ibv_sge& source = *request->sg_list;
    source.addr = reinterpret_cast<std::uint64_t>(write.data);
    source.length = write.bytes;
    source.lkey = source_key;
    const std::uint32_t sequence = static_cast<std::uint32_t>(request_id) + 1;
    request_id = verbs::request_id(peer.tag, sequence);
    request->wr_id = request_id;  // its completion retires everything before
    request->imm_data = htonl(write.immediate);
    request->wr.rdma.remote_addr = window + offset;
    request->wr.rdma.rkey = window_key;
    request->send_flags = sequence % interval == 0 ? unsigned{IBV_SEND_SIGNALED} : 0U;
    ++request;
  }
  peer.posted += static_cast<std::uint32_t>(writes.size());
  ibv_send_wr& last = sends_[writes.size() - 1];
  ibv_send_wr* const next = std::exchange(last.next, nullptr);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(connection.pair.get(), sends_.data(), &bad);
  last.next = next;
  if (error != 0) lose(id, Loss::kError);
}

std::size_t VerbsEndpoint::poll(std::span<Completion> completions) {
  if (++polls_ >= kPollsPerStreamCheck) look_at_streams();
  if (departures_.leaving() > 0) departures_.look(std::chrono::steady_clock::now());
  if (!reports_.empty()) return reports_.take(completions);
  const Taken taken = take(completions);
  // The queue is empty: what the closed peers had written has been taken.
  for (PeerId id = 0; taken.from_queue == 0 && closing_ > 0 && id < peers_.size(); ++id) {
    if (peers_[id].closed && !peers_[id].lost) lose(id, Loss::kClosed);
  }
  return taken.arrived + reports_.take(completions.subspan(taken.arrived));
}

// False: there is nothing to complete, now. Inlined: a call costs a third of it.
[[gnu::always_inline]] inline bool VerbsEndpoint::on_arrived(PeerId id, Peer& peer, Arrival arrival,
                                                             Completion& completion) {
  ++peer.owed;
  if (peer.paused) {
    peer.deferred.push_back(arrival);
    return false;
  }
  // It fails only on a broken queue pair, which a completion tells.
  if (peer.owed >= peer.connection.refill) post_receives(peer);
  completion = {.kind = CompletionKind::kArrived,
                .peer = id,
                .immediate = arrival.immediate,
                .bytes = arrival.bytes};
  completion.data = receive_buffers_.acquire(id, arrival.immediate, arrival.bytes);
  if (completion.data != nullptr) return true;
  lose(id, Loss::kRefused);
  return false;
}

// Arrivals go straight to `completions`; everything else is a report. REQUIRES: no report waits, or
// the ring's room, which is for all that one taking can make of every connection, could run out.
VerbsEndpoint::Taken VerbsEndpoint::take(std::span<Completion> completions) {
  PHUB_DCHECK(reports_.empty(), "reports go first");
  std::array<ibv_wc, kCompletionsPerTake> done;  // NOLINT(*-member-init): ibv_poll_cq fills it
  const std::size_t most = std::min(completions.size(), done.size());
  const int polled = ibv_poll_cq(&queue_, static_cast<int>(most), done.data());
  const auto count = static_cast<std::size_t>(std::max(0, polled));
  Completion* arrived = completions.data();
  for (const ibv_wc& wc : std::span(done).first(count)) {
    const verbs::RequestTag tag = verbs::tag_of(wc.wr_id);
    const PeerId id = verbs::peer_of(tag);
    Peer& peer = peers_[id];
    const bool is_success = wc.status == IBV_WC_SUCCESS;
    if (tag == (peer.tag | verbs::kReceiveTag) && is_success &&
        wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      const Arrival arrival = {ntohl(wc.imm_data), wc.byte_len};
      if (on_arrived(id, peer, arrival, *arrived)) ++arrived;
    } else if (tag == peer.tag && is_success) {
      peer.retired = static_cast<std::uint32_t>(wc.wr_id);
    } else if ((tag & ~verbs::kReceiveTag) == peer.tag) {
      lose(id, loss_of(wc, tag != peer.tag));
    } else if (departures_.leaving() > 0 && tag < verbs::kReceiveTag) {
      is_success ? departures_.on_sent(tag, static_cast<std::uint32_t>(wc.wr_id))
                 : departures_.on_broken(tag);
    }  // else of a connection that is gone
  }
  return {.from_queue = count, .arrived = static_cast<std::size_t>(arrived - completions.data())};
}

// The same, with the arrivals put aside for the next poll; returns how many completions there were.
std::size_t VerbsEndpoint::take_aside() {
  std::array<Completion, kCompletionsPerTake> arrived;  // NOLINT(*-member-init): take fills it
  const Taken taken = take(arrived);
  for (std::size_t i = 0; i < taken.arrived; ++i) reports_.push(arrived[i]);
  return taken.from_queue;
}

int VerbsEndpoint::post_receives(Peer& peer) {
  const std::uint64_t id = verbs::request_id(peer.tag | verbs::kReceiveTag, 0);
  while (peer.owed > 0) {
    const std::size_t part = std::min<std::size_t>(peer.owed, verbs::kChain);
    for (ibv_recv_wr& request : std::span(receives_).first(part)) request.wr_id = id;
    ibv_recv_wr* const next = std::exchange(receives_[part - 1].next, nullptr);
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(peer.connection.pair.get(), receives_.data(), &bad);
    receives_[part - 1].next = next;
    if (error != 0) return error;
    peer.owed -= static_cast<std::uint32_t>(part);
  }
  return 0;
}

void VerbsEndpoint::pause(PeerId id, bool paused) {
  Peer& peer = peers_[id];
  if (peer.paused == paused) return;
  peer.paused = paused;
  if (paused || peer.lost) return;
  peer.owed -= static_cast<std::uint32_t>(peer.deferred.size());
  for (const Arrival& arrival : peer.deferred) {
    Completion completion;  // NOLINT(*-member-init): filled when it is one
    if (!peer.lost && on_arrived(id, peer, arrival, completion)) reports_.push(completion);
  }
  peer.deferred.clear();
}

void VerbsEndpoint::lose(PeerId id, Loss loss) {
  Peer& peer = peers_[id];
  if (peer.lost) return;
  peer.lost = true;
  peer.tag = 0;  // what is still in the queue is nobody's
  if (peer.closed) --closing_;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
  reports_.push({.kind = CompletionKind::kPeerLost, .loss = loss, .peer = id});
}

bool VerbsEndpoint::arm() {
  if (!reports_.empty() || closing_ > 0) return false;
  if (ibv_req_notify_cq(&queue_, 0) != 0) return false;
  // What came before the request raises no event.
  return take_aside() == 0;
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
      while (ibv_get_cq_event(&connector_->channel(), &queue, &context) == 0)
        ibv_ack_cq_events(queue, 1);
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

}  // namespace phub::transport
