// Data-plane input that was refused, counted by cause. One writer for each set of counters.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "common/base/counter.h"

namespace phub::server {

enum class Drop : std::size_t {
  kBadHello,          // not our handshake, or another version
  kHandshakeTimeout,  // the handshake took too long or broke off
  kTurnedOut,      // its place went to another, or its address fails too often and it is no member
  kWrongSecret,    // wrong proof, or no such member
  kExpiredSecret,  // a member's own secret, too long after its join
  kUnknownJob,     // the job is not here, or not ready
  kRefusedConnection,  // no such core, connected already, core full, bad shared memory
  kWrongEncryption,    // plain where streams are encrypted, or the reverse
  kBadFrame,           // a stream that is out of step
  kBadLength,          // a length that is not the chunk's
  kUnknownChunk,
  kDuplicatePush,  // a second push in one round
  kStaleEpoch,
  kBadMemory,    // a notice that points outside, or a broken ring
  kLateWrite,    // for a job that has stopped
  kBadTag,       // an encrypted stream that was changed on the way, or repeated
  kBadVote,      // a vote that the job does not take
  kBadHyper,     // hyper-parameters that are no numbers, or out of range
  kBadSparse,    // a sparse push with a wrong count, or indices out of range or order
  kBadChecksum,  // pushes of a chunk that have not the checksums that came with them
  kBadNorm,      // a word about the norm of all gradients that is not wanted, or not the others'
  kCount,
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Drop::kCount)> kDropNames = {
    "bad hello",     "handshake timeout",  "turned out",       "wrong secret",    "expired secret",
    "unknown job",   "refused connection", "wrong encryption", "bad frame",       "bad length",
    "unknown chunk", "duplicate push",     "stale epoch",      "bad memory",      "late write",
    "bad tag",       "bad vote",           "bad hyper",        "bad sparse push", "bad checksum",
    "bad norm"};

class DropCounters {
 public:
  void count(Drop cause) { counters_[static_cast<std::size_t>(cause)].add(1); }
  std::uint64_t value(Drop cause) const {
    return counters_[static_cast<std::size_t>(cause)].value();
  }

 private:
  std::array<Counter, static_cast<std::size_t>(Drop::kCount)> counters_;
};

}  // namespace phub::server
