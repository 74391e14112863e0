#include "common/transport/verbs/connector.h"

#include <algorithm>
#include <string>

#include "common/transport/descriptors.h"
#include "common/transport/verbs/departures.h"

namespace phub::transport::verbs {
namespace {

constexpr std::uint32_t kFirstEntries = 256;
// More sends than this on their way bring no throughput: 512 x 32 KiB is 16 MiB, beyond what
// 400 Gb/s times a rack's round trip holds.
constexpr std::uint32_t kMostSends = 512;
// Writes that a peer may be ahead of us, whatever it may have outstanding: 128 MiB in chunks of
// 32 KiB. One that is further ahead finds no receive, and its device tries again until there is
// one.
constexpr std::uint32_t kMostReceives = 4096;
}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(std::shared_ptr<const OpenDevice> device) {
  std::unique_ptr<Connector> connector(new Connector(std::move(device)));
  ibv_context* const context = connector->device_->context.get();
  connector->channel_.reset(ibv_create_comp_channel(context));
  if (!connector->channel_) {
    return errno_status("ibv_create_comp_channel", Code::kResourceExhausted);
  }
  PHUB_RETURN_IF_ERROR(set_nonblocking(connector->channel_->fd, "fcntl of a completion channel"));
  connector->queue_.reset(
      ibv_create_cq(context, kFirstEntries, nullptr, connector->channel_.get(), 0));
  if (connector->queue_) return connector;
  return errno_status("ibv_create_cq on " + connector->device_->name + " (its limit is max_cq)",
                      Code::kResourceExhausted);
}

Result<std::shared_ptr<void>> Connector::reserve(std::uint32_t entries) {
  const std::lock_guard lock(mutex_);
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

Result<VerbsConnection> Connector::prepare(const VerbsRegions& regions, std::uint32_t outstanding) {
  VerbsConnection connection;
  connection.memory = regions.owner;
  // Whatever is on its way within the window finds a receive, also when the refill is not yet due.
  const std::uint32_t window = std::min(outstanding, kMostReceives);
  connection.refill = std::min<std::uint32_t>(kChain, (window + 1) / 2);
  connection.depths = {.send = std::min(outstanding, kMostSends) + Departures::kSpareSends,
                       .receive = window + connection.refill - 1};
  // At worst the queue has every receive, and, when the connection breaks, every send.
  PHUB_ASSIGN_OR_RETURN(connection.reservation,
                        reserve(connection.depths.send + connection.depths.receive));
  PHUB_ASSIGN_OR_RETURN(connection.pair,
                        create_queue_pair(*regions.domain, *queue_, connection.depths));
  PHUB_RETURN_IF_ERROR(to_init(*connection.pair, device_->address));
  connection.source_key = regions.source_key;
  connection.mirrored = regions.mirrored;
  connection.own = {.queue_pair = connection.pair->qp_num,
                    .packet_sequence = random_packet_sequence(),
                    .window_key = regions.window_key,
                    .receive_depth = window,
                    .window_address = reinterpret_cast<std::uint64_t>(regions.window.data()),
                    .window_bytes = regions.window.size(),
                    .gid = device_->address.gid,
                    .lid = device_->address.lid,
                    .mtu = device_->address.mtu,
                    .global = static_cast<std::uint8_t>(device_->address.global)};
  return connection;
}

Status Connector::connect(const VerbsConnection& connection) const {
  return verbs::connect(*connection.pair, device_->address, connection.own.packet_sequence,
                        connection.peer);
}

}  // namespace phub::transport::verbs
