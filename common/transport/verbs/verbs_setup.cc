// Making and unmaking connections of a VerbsEndpoint.
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>

#include "common/transport/verbs/memory.h"
#include "common/transport/verbs/verbs_endpoint.h"

namespace phub::transport {

namespace {
constexpr std::uint32_t kFirstEntries = 256;
// More sends than this on their way bring no throughput: 512 x 32 KiB is 16 MiB, beyond what
// 400 Gb/s times a rack's round trip holds.
constexpr std::uint32_t kMostSends = 512;
// Writes that a peer may be ahead of us, whatever it may have outstanding: 128 MiB in chunks of
// 32 KiB. One that is further ahead finds no receive, and its device tries again until there is
// one.
constexpr std::uint32_t kMostReceives = 4096;
// A fence, see Departures.
constexpr std::uint32_t kSpareSends = 1;
// A send is signaled, a completion asked for, once in a quarter of the queue's length: three
// quarters are always usable.
constexpr std::uint32_t kSignalsPerQueue = 4;

// What a connection can have in the completion queue at worst: every receive, and, when it breaks,
// every send.
std::uint32_t entries_of(const verbs::Depths& depths) { return depths.send + depths.receive; }
}  // namespace

VerbsEndpoint::VerbsEndpoint(std::shared_ptr<const verbs::OpenDevice> device,
                             std::uint32_t max_peers, ReceiveBuffers& receive_buffers,
                             const Layout& layout)
    : device_(std::move(device)),
      receive_buffers_(receive_buffers),
      layout_(layout),
      peers_(max_peers),
      departures_(max_peers),
      sends_(kChain),
      sources_(kChain),
      receives_(kChain) {
  for (PeerId id = max_peers; id-- > 0;) free_.push_back(id);
  for (std::size_t i = 0; i < kChain; ++i) {
    sends_[i] = {};
    sends_[i].sg_list = &sources_[i];
    sends_[i].num_sge = 1;
    sends_[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    receives_[i] = {};
    if (i + 1 == kChain) break;
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
  std::unique_ptr<VerbsEndpoint> endpoint(
      new VerbsEndpoint(std::move(device), max_peers, receive_buffers, layout));
  PHUB_RETURN_IF_ERROR(endpoint->open());
  return endpoint;
}

Status VerbsEndpoint::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return errno_status("epoll_create1", Code::kResourceExhausted);
  channel_.reset(ibv_create_comp_channel(device_->context.get()));
  if (!channel_) return errno_status("ibv_create_comp_channel", Code::kResourceExhausted);
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_status("fcntl of a completion channel");
  }
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kChannelEvent;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel_->fd, &event) != 0) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  queue_.reset(ibv_create_cq(device_->context.get(), kFirstEntries, nullptr, channel_.get(), 0));
  if (!queue_) {
    return errno_status("ibv_create_cq on " + device_->name + " (its limit is max_cq)",
                        Code::kResourceExhausted);
  }
  reports_.reserve(2 * kFirstEntries + peers_.size());
  return {};
}

VerbsEndpoint::~VerbsEndpoint() {
  for (PeerId id = 0; id < peers_.size(); ++id) {
    if (peers_[id].connection.pair) remove(id);
  }
  while (leaving() > 0) ::sched_yield();
}

// Completions that find the queue full are an error that ends every connection: it is grown before
// anything may need the room.
Result<std::shared_ptr<void>> VerbsEndpoint::reserve(std::uint32_t entries) {
  const std::lock_guard lock(setup_);
  const std::uint32_t wanted = *reserved_ + entries;
  if (wanted > static_cast<std::uint32_t>(queue_->cqe) &&
      ibv_resize_cq(queue_.get(), static_cast<int>(wanted)) != 0) {
    ibv_device_attr limits = {};
    ibv_query_device(device_->context.get(), &limits);
    return Status(Code::kResourceExhausted,
                  "the connections of this core need a completion queue of " +
                      std::to_string(wanted) + " entries; " + device_->name + " has " +
                      std::to_string(limits.max_cqe) +
                      " (max_cqe): use more cores or larger chunks");
  }
  *reserved_ += entries;
  return std::shared_ptr<void>(nullptr, [total = reserved_, entries](void*) { *total -= entries; });
}

Result<VerbsConnection> VerbsEndpoint::prepare(const VerbsMemory& memory,
                                               std::uint32_t outstanding) {
  VerbsConnection connection;
  connection.memory = memory.owner;
  // Whatever is on its way within the window finds a receive, also when the refill is not yet due.
  const std::uint32_t window = std::min(outstanding, kMostReceives);
  connection.refill = std::min<std::uint32_t>(kChain, (window + 1) / 2);
  connection.depths = {.send = std::min(outstanding, kMostSends) + kSpareSends,
                       .receive = window + connection.refill - 1};
  PHUB_ASSIGN_OR_RETURN(connection.reservation, reserve(entries_of(connection.depths)));
  PHUB_ASSIGN_OR_RETURN(connection.pair,
                        verbs::create_queue_pair(*memory.domain, *queue_, connection.depths));
  PHUB_RETURN_IF_ERROR(verbs::to_init(*connection.pair, device_->address));
  connection.source_key = memory.source_key;
  connection.mirrored = memory.mirrored;
  connection.own = {.queue_pair = connection.pair->qp_num,
                    .packet_sequence = verbs::random_packet_sequence(),
                    .window_key = memory.window_key,
                    .receive_depth = window,
                    .window_address = reinterpret_cast<std::uint64_t>(memory.window.data()),
                    .window_bytes = memory.window.size(),
                    .gid = device_->address.gid,
                    .lid = device_->address.lid,
                    .mtu = device_->address.mtu,
                    .global = static_cast<std::uint8_t>(device_->address.global)};
  return connection;
}

Status VerbsEndpoint::connect(VerbsConnection& connection) const {
  return verbs::connect(*connection.pair, device_->address, connection.own.packet_sequence,
                        connection.peer);
}

Result<PeerId> VerbsEndpoint::add(VerbsConnection connection) {
  if (free_.empty()) {
    return Status(Code::kResourceExhausted,
                  "all " + std::to_string(peers_.size()) +
                      " connections of this core are taken (raise connections_per_core)");
  }
  const PeerId id = free_.back();
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.get(), &event) != 0) {
    return errno_status("epoll_ctl", Code::kResourceExhausted);
  }
  reports_.reserve(2 * static_cast<std::size_t>(*reserved_) + peers_.size());
  Peer& peer = peers_[id];
  peer = Peer{};
  peer.tag = verbs::make_tag(id, connections_++);
  peer.depth = connection.depths.send - kSpareSends;
  peer.signal_interval = std::max(1U, connection.depths.send / kSignalsPerQueue);
  peer.deferred.reserve(connection.depths.receive);
  peer.connection = std::move(connection);
  Status posted = post_receives(peer, peer.connection.depths.receive);
  if (!posted.ok()) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.socket.get(), nullptr);
    peer = Peer{};
    return posted;
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

}  // namespace phub::transport
