// Several streams to a core, over tcp: which of an Exchange's connections carries a chunk.
//
// Both ends compute it: the chunk's slot modulo the number of streams. So all writes of a chunk,
// both ways, are in order, and each stream has every part of the model. A value; immutable.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace phub::client {

class CoreStreams {
 public:
  // How many there are to each core. The first of each is the connection of the core's index, the
  // others follow those of all cores, core by core.
  explicit CoreStreams(std::vector<std::uint32_t> streams) : streams_(std::move(streams)) {
    auto next = static_cast<std::uint32_t>(streams_.size());
    for (const std::uint32_t count : streams_) {
      further_.push_back(next);
      next += count - 1;
    }
    connections_ = next;
  }

  std::uint32_t connections() const { return connections_; }
  std::uint32_t to(std::uint32_t core) const { return streams_[core]; }
  // Of a chunk's slot, or of a stream's number.
  std::uint32_t connection(std::uint32_t core, std::uint32_t slot) const {
    const std::uint32_t stream = slot % streams_[core];
    return stream == 0 ? core : further_[core] + stream - 1;
  }

 private:
  std::vector<std::uint32_t> streams_;
  std::vector<std::uint32_t> further_;  // by core: its second stream
  std::uint32_t connections_ = 0;
};

}  // namespace phub::client
