#include "server/plane/shm_memory.h"

#include <sys/stat.h>

#include <string>

#include "common/memory/peer_memory.h"

namespace phub::server {

ShmMemory::ShmMemory(const JobLayout& layout)
    : plan_(layout.plan),
      server_(layout.server_index),
      element_bytes_(size_of(layout.wire_type)),
      memory_bytes_(shared_memory_bytes(*layout.plan, element_bytes_)),
      layouts_(layout.plan->core_chunks[layout.server_index].size()),
      workers_(seats(layout)) {}

Status ShmMemory::check(const Offer& offer) const {
  const auto chunks = static_cast<std::uint32_t>(plan_->core_chunks[server_][offer.core].size());
  const std::uint32_t capacity = transport::channel_capacity(chunks);
  if (offer.channel_capacity != capacity) {
    return {Code::kInvalidArgument, "its channel takes " + std::to_string(offer.channel_capacity) +
                                        " notices, the plan's " + std::to_string(capacity)};
  }
  if (offer.memory_bytes != memory_bytes_) {
    return {Code::kInvalidArgument, "it shares " + std::to_string(offer.memory_bytes) +
                                        " bytes, the plan has " + std::to_string(memory_bytes_)};
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
                        map_peer_memory(offer.memory_fd, memory_bytes_, PeerAccess::kRead));
  worker.memory = std::move(memory);
  worker.file = file;
  return worker.memory;
}

Result<transport::ShmConnection> ShmMemory::connect(const Offer& offer, const JobMemory& memory) {
  PHUB_RETURN_IF_ERROR(check(offer));
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
  connection.own_memory = {memory.published->data(), memory.published->size()};
  if (!layouts_[offer.core]) {
    layouts_[offer.core] = std::make_shared<const WindowLayout>(
        make_shared_window_layout(*plan_, server_, offer.core, element_bytes_));
  }
  return connection;
}

std::byte* ShmMemory::line(std::uint32_t worker, std::uint32_t core) const {
  return workers_[worker].memory->data() + shared_line_offset(*plan_, server_, core);
}

}  // namespace phub::server
