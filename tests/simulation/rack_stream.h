// A stream between the cores of two racks, and what is between them: it passes on what it likes,
// in pieces of any size, is cut, or says what no rack would.
#pragma once

#include <array>
#include <cstdint>

#include "server/core/drops.h"
#include "tests/simulation/random.h"
#include "tests/simulation/stream_end.h"

namespace phub::simulation {

// Of causes for which a core may end a connection.
class Causes {
 public:
  void add(server::Drop cause) { bits_ |= 1U << static_cast<unsigned>(cause); }
  void add(const Causes& others) { bits_ |= others.bits_; }
  void add_all() { bits_ = ~0U; }
  bool has(server::Drop cause) const { return (bits_ >> static_cast<unsigned>(cause) & 1U) != 0; }
  bool empty() const { return bits_ == 0; }
  std::uint32_t bits() const { return bits_; }

 private:
  std::uint32_t bits_ = 0;
};

// One that is there in two ways (server/racks/README.md): sums go up and replies come down.
class RackStream {
 public:
  enum Side : std::uint8_t { kBelow, kAbove };
  static constexpr Side other(Side side) { return side == kBelow ? kAbove : kBelow; }

  struct Way {
    std::uint32_t below = 0;  // racks
    std::uint32_t above = 0;
    std::uint32_t chunks = 0;
    std::uint32_t rounds = 0;
  };
  RackStream(const Way& way, UniqueFd below, UniqueFd above);

  const Way& way() const { return way_; }
  // Passes some on, both ways; how many bytes moved.
  std::size_t pump(std::size_t most);
  // Both ends close, and what is on its way is lost.
  void cut();

  // What the core at `side` gets as if the other had sent it, which it drops for `cause`; kCount:
  // not at all.
  void forge(Side side, std::span<const std::byte> bytes, server::Drop cause);
  // The next chunk that it gets, but for those of the last round, comes twice.
  void repeat(Side side) { repeats_[side] = true; }
  // Before the next chunk that it gets comes one of another epoch.
  void send_stale(Side side) { sends_stale_[side] = true; }
  std::uint32_t stale_sent() const { return stale_sent_; }

  // Whether the core at `side` has a reason to report that its connection is lost.
  bool is_lost_for(Side side) const { return is_cut_ || ends_[side].has_closed; }
  // What it may have refused.
  const Causes& causes(Side side) const { return ends_[side].causes; }
  bool was_repeated() const { return was_repeated_; }
  // A core has ended the connection.
  bool was_closed_by(Side side) const { return ends_[side].end.has_ended() && !is_cut_; }

 private:
  struct End {
    End(UniqueFd socket, std::uint32_t chunks) : end(std::move(socket)), passed(chunks) {}

    StreamEnd end;
    bool has_closed = false;  // the middle has closed it, since the other is gone
    Causes causes;
    std::vector<std::uint32_t> passed;  // chunks that it was sent, by slot
  };

  void pass_on(Side to, const Frame& frame);

  Way way_;
  std::array<End, 2> ends_;
  std::array<bool, 2> repeats_ = {};
  std::array<bool, 2> sends_stale_ = {};
  std::vector<Frame> frames_;
  std::uint32_t stale_sent_ = 0;
  bool is_cut_ = false;
  bool was_repeated_ = false;
};

}  // namespace phub::simulation
