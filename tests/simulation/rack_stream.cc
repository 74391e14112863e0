#include "tests/simulation/rack_stream.h"

#include "common/protocol/wire.h"

namespace phub::simulation {

RackStream::RackStream(const Way& way, UniqueFd below, UniqueFd above)
    : way_(way), ends_{End(std::move(below), way.chunks), End(std::move(above), way.chunks)} {}

std::size_t RackStream::pump(std::size_t most) {
  std::size_t moved = 0;
  for (const Side from : {kBelow, kAbove}) {
    End& source = ends_[from];
    End& target = ends_[other(from)];
    frames_.clear();
    moved += source.end.take(most, frames_);
    for (const Frame& frame : frames_) pass_on(other(from), frame);
    moved += target.end.pump(most);
    if (!source.end.has_ended() || !target.end.is_open()) continue;
    // What was sent before the end arrives, if the other still reads.
    if (!target.end.is_all_sent() && !target.end.has_ended()) continue;
    target.has_closed = true;
    target.end.close();
    ++moved;
  }
  return moved;
}

void RackStream::pass_on(Side to, const Frame& frame) {
  End& target = ends_[to];
  const std::uint32_t slot =
      to == kBelow ? wire::reply_slot_of(frame.immediate) : wire::slot_of(frame.immediate);
  const std::vector<std::byte> bytes = bytes_of(frame.immediate, frame.payload);
  if (slot >= way_.chunks) return target.end.send_later(bytes);
  if (std::exchange(sends_stale_[to], false)) {
    const std::vector<std::byte> junk(frame.payload.size(), std::byte{0x5A});
    const std::uint32_t epoch = wire::epoch_of(frame.immediate) + 1;
    target.end.send_later(bytes_of(wire::immediate(slot, epoch), junk));
    ++stale_sent_;
  }
  target.end.send_later(bytes);
  if (++target.passed[slot] == way_.rounds || !std::exchange(repeats_[to], false)) return;
  target.end.send_later(bytes);
  was_repeated_ = true;
  for (End& end : ends_) end.causes.add_all();
}

void RackStream::cut() {
  is_cut_ = true;
  for (End& end : ends_) end.end.close();
}

void RackStream::forge(Side side, std::span<const std::byte> bytes, server::Drop cause) {
  ends_[side].end.send_later(bytes);
  if (cause != server::Drop::kCount) ends_[side].causes.add(cause);
}

}  // namespace phub::simulation
