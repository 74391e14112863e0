// All connections of an Exchange: which of them carries a chunk, and which belong to a core.
//
// The first connection to each core comes first, server by server and core by core. The further
// streams follow, again core by core. Only tcp has several streams to a core.
//
// Belongs to the Exchange's thread. Nothing is allocated after it is made, and connections stay at
// their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/exchange/core_connection.h"
#include "common/exchange/core_streams.h"
#include "common/plan/plan.h"

namespace phub::client {

class CoreConnections {
 public:
  // `plan` outlives it. `streams`: how many to each core, by server; empty: one.
  CoreConnections(const Plan& plan, const std::vector<std::uint32_t>& streams);
  CoreConnections(const CoreConnections&) = delete;
  CoreConnections& operator=(const CoreConnections&) = delete;

  // Some core has more than one stream.
  bool have_streams() const { return streams_.has_value(); }

  std::span<CoreConnection> all() { return connections_; }
  // The first connection to each core.
  std::span<CoreConnection> firsts() { return {connections_.data(), first_.back()}; }

  CoreConnection& of(const ServerCore& where) {
    return at(first_[where.server] + where.core, where.stream);
  }
  // The index of the first connection to the chunk's core.
  std::uint32_t first_of(const Chunk& chunk) const { return first_[chunk.server] + chunk.core; }
  // The index of the connection that carries the chunk.
  std::uint32_t stream_of(const Chunk& chunk) const {
    const std::uint32_t first = first_of(chunk);
    return streams_ ? streams_->connection(first, chunk.slot) : first;
  }
  std::size_t index_of(const CoreConnection& connection) const {
    return static_cast<std::size_t>(&connection - connections_.data());
  }

  // Gives each core its line of words, in the order of `firsts`, wire::kHyperStride bytes apart.
  // All streams to a core share its line.
  void use_lines(std::byte* first_line);

 private:
  CoreConnection& at(std::uint32_t first, std::uint32_t stream) {
    return connections_[streams_ ? streams_->connection(first, stream) : first];
  }

  std::vector<std::uint32_t> first_;  // by server: the connection to its core 0; then their number
  std::optional<CoreStreams> streams_;  // none: each core has one
  std::vector<CoreConnection> connections_;
};

}  // namespace phub::client
