#include "common/exchange/core_connections.h"

#include <algorithm>

#include "common/protocol/wire.h"

namespace phub::client {
namespace {

std::vector<std::uint32_t> firsts_by_server(const Plan& plan) {
  std::vector<std::uint32_t> first = {0};
  for (const auto& cores : plan.core_chunks) {
    first.push_back(first.back() + static_cast<std::uint32_t>(cores.size()));
  }
  return first;
}

// `streams` is by server. Returns nothing where each core has one.
std::optional<CoreStreams> streams_to_cores(const Plan& plan,
                                            const std::vector<std::uint32_t>& streams) {
  std::vector<std::uint32_t> by_core;
  std::uint32_t most = 1;
  for (std::size_t server = 0; server < streams.size(); ++server) {
    by_core.insert(by_core.end(), plan.core_chunks[server].size(), streams[server]);
    most = std::max(most, streams[server]);
  }
  if (most == 1) return {};
  return CoreStreams(std::move(by_core));
}

}  // namespace

CoreConnections::CoreConnections(const Plan& plan, const std::vector<std::uint32_t>& streams)
    : first_(firsts_by_server(plan)), streams_(streams_to_cores(plan, streams)) {
  const std::uint32_t cores = first_.back();
  connections_.reserve(streams_ ? streams_->connections() : cores);
  for (const auto& of_server : plan.core_chunks) {
    for (const auto& chunks : of_server) connections_.emplace_back(chunks);
  }
  if (!streams_) return;
  for (std::uint32_t core = 0; core < cores; ++core) {
    for (std::uint32_t i = 1; i < streams_->to(core); ++i) {
      connections_.emplace_back(connections_[core].chunks());
    }
  }
}

void CoreConnections::use_lines(std::byte* first_line) {
  std::byte* line = first_line;
  for (std::uint32_t core = 0; core < first_.back(); ++core) {
    connections_[core].use_line(line);
    for (std::uint32_t i = 1; streams_ && i < streams_->to(core); ++i) at(core, i).use_line(line);
    line += wire::kHyperStride;
  }
}

}  // namespace phub::client
