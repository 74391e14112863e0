// Queue pair number -> peer. Open addressing; nothing allocates after construction. One thread.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/transport/transport.h"

namespace phub::transport::verbs {

class PeerTable {
 public:
  // Twice as many places as entries: a look-up takes one or two steps.
  explicit PeerTable(std::uint32_t most) : slots_(2 * std::bit_ceil(most + 1)) {}

  void insert(std::uint32_t queue_pair, PeerId peer) {
    std::size_t at = home(queue_pair);
    while (slots_[at].used) at = next(at);
    slots_[at] = {.queue_pair = queue_pair, .peer = peer, .used = true};
  }

  std::optional<PeerId> find(std::uint32_t queue_pair) const {
    for (std::size_t at = home(queue_pair); slots_[at].used; at = next(at)) {
      if (slots_[at].queue_pair == queue_pair) return slots_[at].peer;
    }
    return std::nullopt;
  }

  void erase(std::uint32_t queue_pair) {
    std::size_t hole = home(queue_pair);
    while (slots_[hole].used && slots_[hole].queue_pair != queue_pair) hole = next(hole);
    if (!slots_[hole].used) return;
    // Close the gap: move back every later entry of the run whose home is not after the hole.
    for (std::size_t at = next(hole); slots_[at].used; at = next(at)) {
      const std::size_t distance = (at - home(slots_[at].queue_pair)) & mask();
      if (distance >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole].used = false;
  }

 private:
  struct Slot {
    std::uint32_t queue_pair = 0;
    PeerId peer = 0;
    bool used = false;
  };
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(std::uint32_t queue_pair) const {
    return (queue_pair * 0x9E3779B1U >> 8U) & mask();
  }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }

  std::vector<Slot> slots_;
};

}  // namespace phub::transport::verbs
