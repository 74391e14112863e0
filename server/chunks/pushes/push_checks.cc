#include "server/chunks/pushes/push_checks.h"

#include <cstring>

#include "common/protocol/crc32c.h"

namespace phub::server {

PushChecks::PushChecks(const JobLayout& layout, std::uint32_t core,
                       const std::vector<ShardChunk>& chunks)
    : first_round_(has_parameters(layout.rule) ? 1 : 0),
      chunks_(chunks),
      plan_(layout.plan),
      ids_(plan_->core_chunks[layout.server_index][core]),
      windows_(layout.workers),
      workers_(layout.workers) {}

// What lands in a window of ours counts the checksum that follows it.
std::uint32_t PushChecks::payload_bytes(std::uint32_t worker, std::uint32_t bytes) const {
  const Window& window = windows_[worker];
  const bool is_counted = window.start != nullptr && window.layout->checksums.empty();
  if (!is_counted) return bytes;
  return bytes < sizeof(std::uint32_t) ? 0 : bytes - std::uint32_t{sizeof(std::uint32_t)};
}

const std::byte* PushChecks::place(std::uint32_t worker, std::uint32_t slot,
                                   std::span<const std::byte> push) const {
  const Window& window = windows_[worker];
  const bool is_beside = window.start != nullptr && !window.layout->checksums.empty();
  return is_beside ? window.start + window.layout->checksums[slot] : push.data() + push.size();
}

bool PushChecks::check(std::uint32_t worker, std::uint32_t slot, std::span<const std::byte> push) {
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, place(worker, slot, push), sizeof(checksum));
  if (crc32c(push) == checksum) return true;
  WorkerCorruption& found = workers_[worker];
  if (found.pushes++ == 0) {
    found.round = chunks_[slot].rounds + 1 - first_round_;
    found.key = plan_->segments[plan_->chunks[ids_[slot]].first_segment].key;
  }
  findings.add(1);
  return false;
}

}  // namespace phub::server
