#include "server/plane/windows/shm_memory.h"

#include <sys/stat.h>

#include <string>

#include "common/memory/peer_memory.h"

namespace phub::server {

ShmMemory::ShmMemory(const JobLayout& layout)
    : plan_(layout.plan),
      server_(layout.server_index),
      workers_here_(layout.workers),
      element_bytes_(size_of(layout.wire_type)),
      checksums_(layout.checksums),
      memory_bytes_(shared_memory_bytes(*layout.plan, element_bytes_, checksums_)),
      layouts_(layout.plan->core_chunks[layout.server_index].size()),
      rack_layouts_(layouts_.size()),
      workers_(seats(layout)) {}

Status ShmMemory::check(const Offer& offer, std::uint64_t memory_bytes) const {
  const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[server_][offer.core].size());
  const std::uint32_t capacity = transport::channel_capacity(chunks);
  if (offer.channel_capacity != capacity) {
    return {Code::kInvalidArgument, "its channel takes " + std::to_string(offer.channel_capacity) +
                                        " notices, the plan's " + std::to_string(capacity)};
  }
  if (offer.memory_bytes != memory_bytes) {
    return {Code::kInvalidArgument, "it shares " + std::to_string(offer.memory_bytes) +
                                        " bytes, the plan has " + std::to_string(memory_bytes)};
  }
  return {};
}

Result<std::shared_ptr<Mapping>> ShmMemory::memory_of(const Offer& offer) {
  struct stat status = {};
  if (::fstat(offer.memory_fd, &status) != 0) return errno_status("fstat of shared memory");
  const std::pair<std::uint64_t, std::uint64_t> file(status.st_dev, status.st_ino);
  Worker& worker = workers_[offer.worker];
  if (worker.memory && worker.file == file) return worker.memory;
  if (worker.memory) {
    return Status(Code::kInvalidArgument, "it shares another memory than with its first core");
  }
  PHUB_ASSIGN_OR_RETURN(auto memory,
                        map_peer_memory(offer.memory_fd, offer.memory_bytes, PeerAccess::kRead));
  worker.memory = std::move(memory);
  worker.file = file;
  return worker.memory;
}

Result<transport::ShmConnection> ShmMemory::connect(const Offer& offer, const JobMemory& memory) {
  const bool from_rack = is_rack(offer.worker);
  PHUB_RETURN_IF_ERROR(check(offer, from_rack ? memory.rack_bytes() : memory_bytes_));
  // Another server reads what is published here as a stranger's: it insists on all of its pages.
  if (from_rack) PHUB_RETURN_IF_ERROR(memory.rack_replies().commit());
  transport::ShmConnection connection;
  PHUB_ASSIGN_OR_RETURN(
      auto channel,
      map_peer_memory(offer.channel_fd, transport::channel_bytes(offer.channel_capacity),
                      PeerAccess::kReadWrite));
  PHUB_ASSIGN_OR_RETURN(connection.peer_memory, memory_of(offer));
  connection.channel = std::move(channel);
  workers_[offer.worker].channels.push_back(connection.channel);
  connection.capacity = offer.channel_capacity;
  connection.core_side = true;
  const SharedMemory& replies = from_rack ? memory.rack_replies() : *memory.published;
  connection.own_memory = {replies.data(), replies.size()};
  auto& layout = (from_rack ? rack_layouts_ : layouts_)[offer.core];
  if (!layout) layout = std::make_shared<const WindowLayout>(layout_for(offer, memory));
  return connection;
}

WindowLayout ShmMemory::layout_for(const Offer& offer, const JobMemory& memory) const {
  if (!is_rack(offer.worker)) {
    return make_shared_window_layout(*plan_, server_, offer.core, element_bytes_, checksums_);
  }
  WindowLayout layout;
  const std::uint64_t line = offer.core * wire::kHyperStride;
  layout.slots = memory.rack_offsets(*plan_, server_, offer.core);
  for (std::uint64_t& slot : layout.slots) slot -= line;
  layout.bytes = memory.rack_bytes() - line;
  return layout;
}

std::byte* ShmMemory::line(std::uint32_t worker, std::uint32_t core) const {
  const std::uint64_t offset =
      is_rack(worker) ? core * wire::kHyperStride : shared_line_offset(*plan_, server_, core);
  return workers_[worker].memory->data() + offset;
}

}  // namespace phub::server
