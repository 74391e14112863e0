#include "common/protocol/window_layout.h"

#include "common/protocol/wire.h"

namespace phub {

namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Cores of all servers: a worker has a connection to each.
std::size_t connections_of(const Plan& plan) {
  std::size_t connections = 0;
  for (const auto& cores : plan.core_chunks) connections += cores.size();
  return connections;
}

}  // namespace

WindowLayout make_window_layout(const Plan& plan, std::uint32_t server, std::uint32_t core,
                                std::size_t element_bytes, bool checksums) {
  WindowLayout layout;
  const std::size_t behind = checksums ? sizeof(std::uint32_t) : 0;
  layout.bytes = wire::kHyperStride;
  for (const std::uint32_t id : plan.core_chunks[server][core]) {
    layout.slots.push_back(layout.bytes);
    layout.bytes += round_up(plan.chunks[id].elements * element_bytes + behind, kLine);
  }
  layout.bytes = round_up(layout.bytes, kPage);
  return layout;
}

WindowLayout make_shared_window_layout(const Plan& plan, std::uint32_t server, std::uint32_t core,
                                       std::size_t element_bytes, bool checksums) {
  WindowLayout layout;
  const std::uint64_t line = shared_line_offset(plan, server, core);
  const std::uint64_t arena = wire::hyper_bytes(connections_of(plan)) - line;
  for (const std::uint32_t id : plan.core_chunks[server][core]) {
    layout.slots.push_back(arena + plan.chunks[id].arena_offset * element_bytes);
  }
  layout.bytes = shared_memory_bytes(plan, element_bytes, checksums) - line;
  if (!checksums) return layout;
  const std::uint64_t table = shared_checksums_offset(plan, element_bytes) - line;
  for (const std::uint32_t id : plan.core_chunks[server][core]) {
    layout.checksums.push_back(table + id * sizeof(std::uint32_t));
  }
  return layout;
}

std::uint64_t shared_line_offset(const Plan& plan, std::uint32_t server, std::uint32_t core) {
  std::uint64_t connection = core;
  for (std::uint32_t s = 0; s < server; ++s) connection += plan.core_chunks[s].size();
  return connection * wire::kHyperStride;
}

std::uint64_t shared_checksums_offset(const Plan& plan, std::size_t element_bytes) {
  return round_up(shared_memory_bytes(plan, element_bytes), kLine);
}

std::uint64_t shared_memory_bytes(const Plan& plan, std::size_t element_bytes, bool checksums) {
  if (checksums) {
    return shared_checksums_offset(plan, element_bytes) +
           plan.chunks.size() * sizeof(std::uint32_t);
  }
  return wire::hyper_bytes(connections_of(plan)) + plan.arena_elements * element_bytes;
}

std::uint64_t norm_line_offset(const Plan& plan, std::uint32_t server, std::uint32_t core,
                               std::size_t element_bytes) {
  return round_up(plan.arena_elements * element_bytes, kLine) +
         shared_line_offset(plan, server, core);
}

std::uint64_t parameters_and_norms_bytes(const Plan& plan, std::size_t element_bytes) {
  return round_up(plan.arena_elements * element_bytes, kLine) +
         connections_of(plan) * wire::kHyperStride;
}

std::uint64_t changes_offset(const Plan& plan, std::size_t element_bytes, bool has_norms) {
  const std::uint64_t end = has_norms ? parameters_and_norms_bytes(plan, element_bytes)
                                      : plan.arena_elements * element_bytes;
  return round_up(end, kLine);
}

std::uint64_t parameters_and_changes_bytes(const Plan& plan, std::size_t element_bytes,
                                           bool has_norms) {
  return changes_offset(plan, element_bytes, has_norms) + plan.arena_elements * element_bytes;
}

}  // namespace phub
