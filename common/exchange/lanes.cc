#include "common/exchange/lanes.h"

#include <algorithm>
#include <type_traits>

#include "common/base/check.h"
#include "common/protocol/wire.h"

namespace phub::client {

using transport::ShmEndpoint;
using transport::TcpEndpoint;
using transport::VerbsEndpoint;

namespace {
// Of connections of which several go to one core: each has its own chunks' replies only.
class StreamsLane final : public EndpointLane {
 public:
  using EndpointLane::EndpointLane;

  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate,
                     std::uint32_t bytes) override {
    const ServerCore& where = at(peer).connection->where();
    const bool is_norm = wire::slot_of(immediate) == wire::kNormSlot;
    if (!is_norm && wire::reply_slot_of(immediate) % where.streams != where.stream) return nullptr;
    return EndpointLane::acquire(peer, immediate, bytes);
  }
};
}  // namespace

std::byte* EndpointLane::acquire(transport::PeerId peer, std::uint32_t immediate,
                                 std::uint32_t bytes) {
  const CoreConnection& connection = *peers_[peer].connection;
  if (wire::slot_of(immediate) == wire::kNormSlot) {
    return bytes == sizeof(double) ? connection.norm() : nullptr;
  }
  return due_.place(connection.chunks(), immediate, bytes);
}

std::uint64_t EndpointLane::offset(transport::PeerId peer, const transport::Write& write) const {
  const std::uint32_t slot = wire::slot_of(write.immediate);
  return wire::is_control(slot) ? wire::offset_in_line(slot) : peers_[peer].landing.slots[slot];
}

const std::uint32_t* EndpointLane::checksum(transport::PeerId peer, std::uint32_t immediate) const {
  const std::uint32_t slot = wire::slot_of(immediate);
  return wire::is_control(slot) ? nullptr : checksums_ + peers_[peer].connection->chunks()[slot];
}

Status EndpointLane::put_in_front(const transport::EndpointFront& front) {
  PHUB_ASSIGN_OR_RETURN(front_, front(*endpoint_, static_cast<std::uint32_t>(peers_.size())));
  return {};
}

template <typename Endpoint, typename IsWanted, typename Create>
Result<Endpoint*> Lanes::find_or_create(const IsWanted& is_wanted, const Create& create) {
  for (const auto& lane : lanes_) {
    auto* const endpoint = dynamic_cast<Endpoint*>(&lane->own());
    if (endpoint != nullptr && is_wanted(*endpoint)) return endpoint;
  }
  std::unique_ptr<EndpointLane> lane;
  if (has_streams_) {
    lane = std::make_unique<StreamsLane>(due_, connections_, checksums_);
  } else {
    lane = std::make_unique<EndpointLane>(due_, connections_, checksums_);
  }
  PHUB_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> created, create(*lane));
  Endpoint* const endpoint = created.get();
  if constexpr (!std::is_same_v<Endpoint, ShmEndpoint>) {
    if (checksums_ != nullptr) endpoint->send_checksums(*lane);
  }
  lane->use(std::move(created));
  lanes_.push_back(std::move(lane));
  return endpoint;
}

Result<TcpEndpoint*> Lanes::tcp(const transport::EndpointFront& front) {
  const std::size_t before = lanes_.size();
  PHUB_ASSIGN_OR_RETURN(TcpEndpoint * endpoint,
                        find_or_create<TcpEndpoint>([](const TcpEndpoint&) { return true; },
                                                    [&](EndpointLane& lane) {
                                                      return TcpEndpoint::create(
                                                          {.max_peers = connections_}, lane);
                                                    }));
  const bool is_new = lanes_.size() > before;
  if (is_new && front) PHUB_RETURN_IF_ERROR(lanes_.back()->put_in_front(front));
  return endpoint;
}

Result<ShmEndpoint*> Lanes::shm() {
  return find_or_create<ShmEndpoint>(
      [](const ShmEndpoint&) { return true; },
      [&](EndpointLane&) { return ShmEndpoint::create(connections_); });
}

Result<VerbsEndpoint*> Lanes::verbs_on(
    const std::shared_ptr<const transport::verbs::OpenDevice>& device) {
  return find_or_create<VerbsEndpoint>(
      [&](VerbsEndpoint& endpoint) { return &endpoint.connector().device() == device.get(); },
      [&](EndpointLane& lane) { return VerbsEndpoint::create(device, connections_, lane, lane); });
}

void Lanes::use_verbs_source(
    std::span<const std::byte> bytes,
    const std::function<std::uint32_t(const transport::verbs::OpenDevice&)>& key_on) {
  for (const auto& lane : lanes_) {
    auto* const endpoint = dynamic_cast<VerbsEndpoint*>(&lane->own());
    if (endpoint == nullptr) continue;
    const std::uint32_t key = key_on(endpoint->connector().device());
    for (transport::PeerId peer = 0; peer < lane->peers().size(); ++peer) {
      if (lane->peers()[peer].connection == nullptr) continue;
      endpoint->use_second_source(peer, {bytes, key});
    }
  }
}

EndpointLane& Lanes::of(const transport::Endpoint& endpoint) const {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(),
                                 [&](const auto& each) { return &each->own() == &endpoint; });
  PHUB_CHECK(lane != lanes_.end(), "an endpoint of another exchange");
  return **lane;
}

std::vector<transport::Endpoint*> Lanes::endpoints() const {
  std::vector<transport::Endpoint*> all;
  for (const auto& lane : lanes_) all.push_back(&lane->endpoint());
  return all;
}

}  // namespace phub::client
