// Chunks whose quorum is there and whose grace runs, in order of their deadlines: the grace is the
// same for all, so that is the order in which they came. Data of a Shard; its core's thread only.
#pragma once

#include <cstdint>
#include <vector>

namespace phub::server {

class GraceQueue {
 public:
  explicit GraceQueue(std::size_t chunks) : links_(chunks) {}

  bool empty() const { return first_ == kNone; }
  bool contains(std::uint32_t slot) const { return links_[slot].is_in; }
  // `deadline`: in ticks, not before those of others. REQUIRES: it is not in.
  void push(std::uint32_t slot, std::uint64_t deadline) {
    links_[slot] = {.deadline = deadline, .before = last_, .next = kNone, .is_in = true};
    (last_ == kNone ? first_ : links_[last_].next) = slot;
    last_ = slot;
  }
  // These two REQUIRE that it is not empty.
  std::uint32_t front() const { return first_; }
  std::uint64_t deadline() const { return links_[first_].deadline; }
  // Its round is complete; nothing happens where its grace does not run.
  void remove(std::uint32_t slot) {
    Link& link = links_[slot];
    if (!link.is_in) return;
    link.is_in = false;
    (link.before == kNone ? first_ : links_[link.before].next) = link.next;
    (link.next == kNone ? last_ : links_[link.next].before) = link.before;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Link {
    std::uint64_t deadline = 0;
    std::uint32_t before = kNone;
    std::uint32_t next = kNone;
    bool is_in = false;
  };

  std::vector<Link> links_;  // by slot
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
};

}  // namespace phub::server
