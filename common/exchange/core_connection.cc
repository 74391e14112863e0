#include "common/exchange/core_connection.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/protocol/crc32c.h"
#include "common/protocol/wire.h"

namespace phub::client {

using transport::Write;

namespace {
constexpr std::size_t kWritesPerPost = 64;
constexpr std::uint32_t kNever = 1U << 30;  // more arrivals than a ring can hold
}  // namespace

void CoreConnection::set_hyper(const Hyper& hyper) {
  std::memcpy(line_, &hyper, sizeof(hyper));
  owes_hyper_ = true;
}

void CoreConnection::vote(const Vote& vote) {
  std::memcpy(line_ + wire::kVoteOffset, &vote, sizeof(vote));
  owes_vote_ = true;
}

void CoreConnection::tell_norm(double squares) {
  std::memcpy(line_ + wire::kNormOffset, &squares, sizeof(squares));
  owes_norm_ = true;
}

bool CoreConnection::post_line(std::size_t offset, std::uint32_t bytes, std::uint32_t slot) {
  const Write write{
      .data = line_ + offset, .bytes = bytes, .immediate = wire::immediate(slot, where_.epoch)};
  return endpoint_->post(peer_, {&write, 1}) > 0;
}

std::uint64_t CoreConnection::send(const PushSource& source) {
  if (owes_vote_) owes_vote_ = !post_line(wire::kVoteOffset, sizeof(Vote), wire::kVoteSlot);
  if (owes_norm_) owes_norm_ = !post_line(wire::kNormOffset, sizeof(double), wire::kNormSlot);
  if (pending_.empty()) return 0;
  if (owes_hyper_) owes_hyper_ = !post_line(0, sizeof(Hyper), wire::kHyperSlot);
  if (owes_hyper_) return 0;
  std::uint64_t bytes = 0;
  std::array<Write, kWritesPerPost> writes;  // NOLINT(*-member-init): filled below
  while (!pending_.empty()) {
    const std::size_t room = std::min(writes.size(), endpoint_->room(peer_));
    if (room == 0) break;
    std::size_t count = 0;
    while (count < room && !pending_.empty()) {
      const std::uint32_t slot = pending_.pop_min();
      const std::uint32_t id = (*chunks_)[slot];
      const Chunk& chunk = source.plan.chunks[id];
      Write& write = writes[count++];
      write = {.data = source.gradients + chunk.arena_offset * source.element_bytes,
               .bytes = source.push_bytes != nullptr
                            ? source.push_bytes[id]
                            : static_cast<std::uint32_t>(chunk.elements * source.element_bytes),
               .immediate = wire::immediate(slot, where_.epoch)};
      bytes += write.bytes;
    }
    if (source.checksums != nullptr) add_checksums(source, {writes.data(), count});
    endpoint_->post(peer_, {writes.data(), count});
  }
  return bytes;
}

void CoreConnection::add_checksums(const PushSource& source, std::span<const Write> writes) const {
  for (const Write& write : writes) {
    source.checksums[(*chunks_)[wire::slot_of(write.immediate)]] =
        crc32c({write.data, write.bytes});
  }
}

void CoreConnection::expect(const ReplyCount& needed) {
  const bool none = needed.count == 0;
  endpoint_->expect(peer_, none ? kNever : needed.count, none ? UINT64_MAX : needed.bytes);
}

}  // namespace phub::client
