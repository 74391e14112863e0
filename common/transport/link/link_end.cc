#include "common/transport/link/link_end.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/transport/descriptors.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/verbs/registered.h"

namespace phub::transport {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestSleep{100};

std::byte pattern(unsigned from, std::size_t at) {
  return static_cast<std::byte>(at * 31 + at / 4099 + from * 101);
}

}  // namespace

LinkEnd::LinkEnd(const LinkOptions& options, unsigned index) : options_(options), index_(index) {}

LinkEnd::~LinkEnd() = default;

Result<std::unique_ptr<LinkEnd>> LinkEnd::create(const LinkOptions& options, unsigned index,
                                                 UniqueFd socket) {
  std::unique_ptr<LinkEnd> end(new LinkEnd(options, index));
  const std::size_t bytes = std::size_t{options.bytes} * options.depth;
  PHUB_ASSIGN_OR_RETURN(end->source_, Mapping::anonymous(bytes));
  PHUB_ASSIGN_OR_RETURN(end->window_, Mapping::anonymous(bytes));
  for (std::size_t i = 0; i < bytes; ++i) end->source_->data()[i] = pattern(index, i);
  PHUB_RETURN_IF_ERROR(options.device ? end->open_verbs(std::move(socket))
                                      : end->open_tcp(std::move(socket)));
  PHUB_ASSIGN_OR_RETURN(end->waiter_, Waiter::create(options.waiting, {end->endpoint_.get()}));
  return end;
}

Status LinkEnd::open_tcp(UniqueFd socket) {
  PHUB_ASSIGN_OR_RETURN(auto endpoint, TcpEndpoint::create({.max_peers = 1}, *this));
  PHUB_RETURN_IF_ERROR(set_nonblocking(socket.get(), "fcntl"));
  PHUB_ASSIGN_OR_RETURN(peer_, endpoint->add(std::move(socket)));
  endpoint_ = std::move(endpoint);
  return {};
}

Status LinkEnd::open_verbs(UniqueFd socket) {
  PHUB_ASSIGN_OR_RETURN(const auto registered,
                        verbs::register_both(options_.device, {source_->data(), source_->size()},
                                             {window_->data(), window_->size()}));
  PHUB_ASSIGN_OR_RETURN(auto endpoint, VerbsEndpoint::create(options_.device, 1, *this, *this));
  PHUB_ASSIGN_OR_RETURN(auto connection, endpoint->connector().prepare(
                                             verbs::regions_of(registered), options_.depth));
  PHUB_RETURN_IF_ERROR(swap(socket.get(), connection.own, connection.peer));
  PHUB_RETURN_IF_ERROR(check(connection.peer));
  PHUB_RETURN_IF_ERROR(endpoint->connector().connect(connection));
  connection.socket = std::move(socket);
  PHUB_ASSIGN_OR_RETURN(peer_, endpoint->add(std::move(connection)));
  endpoint_ = std::move(endpoint);
  return {};
}

Status LinkEnd::swap(int socket, const verbs::Introduction& own, verbs::Introduction& peer) const {
  Status gone(Code::kUnavailable, "the other end of the connection failed; see its message");
  if (::send(socket, &own, sizeof(own), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(own))) {
    return gone;
  }
  const auto deadline = Clock::now() + options_.patience;
  const auto bytes = std::as_writable_bytes(std::span(&peer, 1));
  for (std::size_t have = 0; have < bytes.size();) {
    const long got = ::recv(socket, &bytes[have], bytes.size() - have, MSG_DONTWAIT);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return gone;
    if (options_.interrupted) PHUB_RETURN_IF_ERROR(options_.interrupted());
    if (Clock::now() > deadline) return silence();
    pollfd wait = {.fd = socket, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(kLongestSleep.count()));
  }
  return {};
}

Status LinkEnd::check(const verbs::Introduction& peer) const {
  constexpr std::uint8_t kLargestMtu = 5;  // of ibv_mtu
  if (peer.window_bytes != window_->size() || peer.receive_depth != options_.depth ||
      peer.mtu == 0 || peer.mtu > kLargestMtu) {
    return {Code::kInvalidArgument,
            "the other end's queue pair is for other writes than ours; is it the same version?"};
  }
  return {};
}

std::byte* LinkEnd::acquire(PeerId, std::uint32_t immediate, std::uint32_t bytes) {
  if (immediate >= options_.depth || bytes > options_.bytes) return nullptr;
  return window_->data() + std::size_t{immediate} * options_.bytes;
}

Status LinkEnd::silence() const {
  return {Code::kDeadlineExceeded,
          "nothing came from the other end for " +
              std::to_string(std::chrono::ceil<std::chrono::seconds>(options_.patience).count()) +
              " seconds"};
}

Status LinkEnd::progress() {
  const auto deadline = Clock::now() + options_.patience;
  while (true) {
    const std::size_t count = lost_ ? 0 : endpoint_->poll(completions_);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions_[i].kind == CompletionKind::kPeerLost) lost_ = true;
      if (completions_[i].kind == CompletionKind::kArrived) ++arrived_;
    }
    if (lost_) return {Code::kUnavailable, "the connection to the other end broke"};
    if (count > 0) waiter_->busy();
    if (count > 0 || endpoint_->room(peer_) > 0) return {};
    if (options_.interrupted) PHUB_RETURN_IF_ERROR(options_.interrupted());
    if (Clock::now() > deadline) return silence();
    waiter_->idle(kLongestSleep);
  }
}

Status LinkEnd::send(std::uint64_t count, std::uint32_t batch, std::uint32_t bytes) {
  std::vector<Write> writes(batch);
  const std::uint64_t end = posted_ + count;
  while (posted_ < end) {
    const std::size_t room = std::min(
        {std::size_t{batch}, endpoint_->room(peer_), static_cast<std::size_t>(end - posted_)});
    for (std::size_t i = 0; i < room; ++i) {
      const auto at = static_cast<std::uint32_t>((posted_ + i) % options_.depth);
      writes[i] = {.data = source_->data() + std::size_t{at} * options_.bytes,
                   .bytes = bytes == 0 ? options_.bytes : bytes,
                   .immediate = at};
    }
    if (room > 0) posted_ += endpoint_->post(peer_, {writes.data(), room});
    if (posted_ < end) PHUB_RETURN_IF_ERROR(progress());
  }
  return {};
}

Status LinkEnd::receive(std::uint64_t count) {
  auto deadline = Clock::now() + options_.patience;
  while (arrived_ < count) {
    const std::uint64_t seen = arrived_;
    const Status moved = progress();
    if (arrived_ >= count) break;  // the other end may be gone after its last write
    PHUB_RETURN_IF_ERROR(moved);
    const auto now = Clock::now();
    if (arrived_ != seen) {
      deadline = now + options_.patience;
      continue;
    }
    if (options_.interrupted) PHUB_RETURN_IF_ERROR(options_.interrupted());
    if (now > deadline) return silence();
    waiter_->idle(kLongestSleep);
  }
  arrived_ -= count;
  return {};
}

bool LinkEnd::verified() const {
  const std::size_t bytes = window_->size();
  for (std::size_t i = 0; i < bytes; ++i) {
    if (window_->data()[i] != pattern(1 - index_, i)) return false;
  }
  return true;
}

}  // namespace phub::transport
