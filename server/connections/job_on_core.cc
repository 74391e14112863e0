#include "server/connections/job_on_core.h"

#include "server/connections/connection.h"
#include "server/job/footprint.h"

namespace phub::server {
namespace {

// By rack: how many sums and replies it brings in a round; empty: one rack.
std::vector<std::uint32_t> brought_by_racks(Shard& shard) {
  if (!shard.racks || shard.outer) return {};  // not in each round, with the latter
  const RackPlace& place = shard.racks->place();
  std::vector<std::uint32_t> brought(place.racks());
  for (std::uint32_t slot = 0; slot < shard.chunks(); ++slot) {
    const std::uint32_t tree = shard.chunk(slot).tree;
    for (std::uint32_t rack = 0; rack < place.racks(); ++rack) {
      if (rack != place.own() && place.is_below(tree, rack)) ++brought[rack];
    }
    if (!place.is_root(tree)) ++brought[place.above(tree)];
  }
  return brought;
}

}  // namespace

PriceList::Kind kind_of(const JobLayout& layout) {
  return {.rule = layout.rule,
          .wire_type = layout.wire_type,
          .workers = seats(layout),
          .loss_scaling = layout.loss_scale.kind,
          .encoding = layout.encoding,
          .checksums = layout.checksums,
          .averages = layout.ema_decay > 0.0,
          .clips = layout.clip_norm > 0.0F,
          .looks = layout.watch_values != WatchValues::kOff,
          .racks = layout.rack.racks(),
          .rack_wire_type = layout.rack_wire_type};
}

// Of arrivals: each chunk, a Hyper and a Vote of each worker, at most, and two words of each
// further stream.
JobOnCore::JobOnCore(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
                     std::unique_ptr<BufferPool> buffers)
    : job_id(layout.job_id),
      tenant_id(layout.tenant_id),
      weight(layout.weight),
      epoch(layout.epoch),
      workers(layout.workers),
      tcp_streams(layout.tcp_streams),
      all_streams(seats(layout) * layout.tcp_streams),
      hyper(layout.hyper),
      kind(kind_of(layout)),
      staging(std::move(buffers)),
      shard(layout, core, std::move(memory), *staging),
      connections(seats(layout)),
      above(layout.rack.is_alone() ? 0 : layout.rack.racks()),
      arrivals((shard.chunks() + 2 * std::size_t{tcp_streams}) *
               std::size_t{seats(layout) + layout.rack.racks() - 1}),
      times(layout.workers, shard.chunks(), brought_by_racks(shard), layout.rounds.waits_for_all()),
      worker_counters(seats(layout)),
      above_counters(above.size()),
      staging_budget_(staging_budget(layout)) {}

JobOnCore::~JobOnCore() = default;  // here, where connections are known

Result<std::unique_ptr<JobOnCore>> JobOnCore::create(const JobLayout& layout, std::uint32_t core,
                                                     std::shared_ptr<JobMemory> memory) {
  PHUB_ASSIGN_OR_RETURN(auto staging, BufferPool::create(staging_buffers(layout, core),
                                                         staging_buffer_bytes(layout)));
  return std::unique_ptr<JobOnCore>(
      new JobOnCore(layout, core, std::move(memory), std::move(staging)));
}

void JobOnCore::on_taken(std::uint32_t slot, const Arrival& arrival) {
  const Connection& connection = *arrival.connection;
  connection.counters->pushes.add(1);
  connection.counters->bytes_received.add(arrival.bytes);
  if (connection.role == PeerRole::kWorker) {
    times.pushed(connection.worker, slot, arrival.arrived);
  } else {
    times.brought(shard.racks->place().rack_at(connection.worker, workers), arrival.arrived);
  }
}

void JobOnCore::on_dropped(std::uint32_t slot, const Arrival& arrival) {
  arrival.connection->counters->pushes.add(1);
  arrival.connection->counters->bytes_received.add(arrival.bytes);
  times.dropped(slot, arrival.arrived);
}

void JobOnCore::on_replied(const Arrival& arrival) {
  const Connection& connection = *arrival.connection;
  connection.counters->pushes.add(1);
  connection.counters->bytes_received.add(arrival.bytes);
  times.brought(shard.racks->place().rack_at(connection.worker, workers), arrival.arrived);
}

bool JobOnCore::is_ahead(const Connection& connection) const {
  const std::uint64_t margin = std::min(kind.workers, kChunksAhead);
  const auto end = connections.begin() + workers;  // racks push fewer, and are never held
  const std::uint64_t pushes = connection.main().all_pushes();
  return connection.role == PeerRole::kWorker &&
         std::any_of(connections.begin(), end, [&](const auto& other) {
           return other && !other->lost && other->all_pushes() + margin < pushes;
         });
}

// A chunk that is whole has one push of each worker, so those of the slowest that are not in one
// wait for somebody else's.
bool JobOnCore::is_slowest_waiting() const {
  std::uint64_t fewest = UINT64_MAX;
  for (std::uint32_t seat = 0; seat < workers; ++seat) {
    const auto& connection = connections[seat];
    fewest = std::min(fewest, connection ? connection->all_pushes() : 0);
  }
  return fewest > gathered_;
}

}  // namespace phub::server
