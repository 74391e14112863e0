#include "bench/transport_link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/verbs/gid.h"
#include "common/transport/verbs/port_choice.h"
#include "common/transport/verbs/registered.h"

namespace phub::bench {

namespace verbs = transport::verbs;

namespace {

constexpr std::chrono::seconds kPatience{300};  // perftest runs in between
constexpr std::chrono::milliseconds kLongestSleep{100};

std::byte pattern(unsigned from, std::size_t at) {
  return static_cast<std::byte>(at * 31 + at / 4099 + from * 101);
}

Status swap(int socket, const verbs::Introduction& own, verbs::Introduction& peer) {
  if (::send(socket, &own, sizeof(own), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(own)) ||
      ::recv(socket, &peer, sizeof(peer), MSG_WAITALL) != static_cast<ssize_t>(sizeof(peer))) {
    return {Code::kUnavailable, "the other end of the connection failed; see above"};
  }
  return {};
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
  PHUB_RETURN_IF_ERROR(end->open(std::move(socket)));
  PHUB_ASSIGN_OR_RETURN(end->waiter_, transport::Waiter::create({}, {end->endpoint_.get()}));
  return end;
}

Status LinkEnd::open(UniqueFd socket) {
  if (options_.transport == "verbs") return open_verbs(std::move(socket));
  PHUB_ASSIGN_OR_RETURN(auto endpoint, transport::TcpEndpoint::create({.max_peers = 1}, *this));
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_status("fcntl");
  }
  PHUB_ASSIGN_OR_RETURN(peer_, endpoint->add(std::move(socket)));
  endpoint_ = std::move(endpoint);
  return {};
}

Status LinkEnd::open_verbs(UniqueFd socket) {
  std::vector<std::string> names = options_.devices;
  if (names.size() > 1) names = {names[index_]};
  PHUB_ASSIGN_OR_RETURN(const auto devices, verbs::list_devices());
  PHUB_ASSIGN_OR_RETURN(const auto choice, verbs::choose_port(devices, names));
  PHUB_ASSIGN_OR_RETURN(const verbs::Gid gid,
                        verbs::choose_gid(choice.port, std::nullopt, std::nullopt));
  device_ = choice.device.name;
  gid_index_ = gid.index;
  PHUB_ASSIGN_OR_RETURN(
      const auto device,
      verbs::open_device(device_, choice.port.number, static_cast<std::uint8_t>(gid_index_)));
  PHUB_ASSIGN_OR_RETURN(const auto registered,
                        verbs::register_both(device, {source_->data(), source_->size()},
                                             {window_->data(), window_->size()}));
  PHUB_ASSIGN_OR_RETURN(auto endpoint, transport::VerbsEndpoint::create(device, 1, *this, *this));
  PHUB_ASSIGN_OR_RETURN(auto connection,
                        endpoint->prepare(verbs::memory_of(registered), options_.depth));
  PHUB_RETURN_IF_ERROR(swap(socket.get(), connection.own, connection.peer));
  PHUB_RETURN_IF_ERROR(endpoint->connect(connection));
  connection.socket = std::move(socket);
  PHUB_ASSIGN_OR_RETURN(peer_, endpoint->add(std::move(connection)));
  endpoint_ = std::move(endpoint);
  return {};
}

std::byte* LinkEnd::place(transport::PeerId, std::uint32_t immediate, std::uint32_t bytes) {
  if (immediate >= options_.depth || bytes != options_.bytes) return nullptr;
  return window_->data() + std::size_t{immediate} * options_.bytes;
}

Status LinkEnd::progress() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const std::size_t count = endpoint_->poll(completions_);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions_[i].kind == transport::CompletionKind::kPeerLost) {
        return {Code::kUnavailable, "the connection of the bench broke"};
      }
      if (completions_[i].kind == transport::CompletionKind::kArrived) ++arrived_;
    }
    if (count > 0) waiter_->busy();
    if (count > 0 || endpoint_->room(peer_) > 0) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      return {Code::kDeadlineExceeded, "nothing moved on the connection for five minutes"};
    }
    waiter_->idle(kLongestSleep);
  }
}

Status LinkEnd::send(std::uint64_t count, std::uint32_t batch) {
  std::vector<transport::Write> writes(batch);
  const std::uint64_t end = posted_ + count;
  while (posted_ < end) {
    const std::size_t room = std::min(
        {std::size_t{batch}, endpoint_->room(peer_), static_cast<std::size_t>(end - posted_)});
    for (std::size_t i = 0; i < room; ++i) {
      const auto at = static_cast<std::uint32_t>((posted_ + i) % options_.depth);
      writes[i] = {.data = source_->data() + std::size_t{at} * options_.bytes,
                   .bytes = options_.bytes,
                   .immediate = at};
    }
    if (room > 0) posted_ += endpoint_->post(peer_, {writes.data(), room});
    PHUB_RETURN_IF_ERROR(progress());
  }
  return {};
}

Status LinkEnd::receive(std::uint64_t count) {
  const std::uint64_t before = arrived_;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (arrived_ < count) {
    const std::uint64_t seen = arrived_;
    PHUB_RETURN_IF_ERROR(progress());
    if (arrived_ == seen) waiter_->idle(kLongestSleep);
    if (arrived_ == before && std::chrono::steady_clock::now() > deadline) {
      return {Code::kDeadlineExceeded, "nothing arrived for five minutes"};
    }
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

}  // namespace phub::bench
