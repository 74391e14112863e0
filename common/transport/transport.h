// The transport contract: one-sided writes with an immediate, between an Endpoint and its peers.
//
// An Endpoint belongs to one thread; only its owner calls it. post and poll never block, allocate,
// lock or log. Set-up (adding peers) is a matter of each backend. Writes of one peer arrive in
// the order in which they were posted, whole, once. A dead or misbehaving peer is a completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace phub::transport {

using PeerId = std::uint32_t;  // chosen by the endpoint; reused only after remove

struct Write {
  const std::byte* data;  // stays unchanged until the peer acknowledges it at a higher level
  std::uint32_t bytes;    // 1 .. max_write_bytes of the endpoint
  std::uint32_t immediate;
};

enum class CompletionKind : std::uint8_t { kArrived, kPeerLost };

enum class Loss : std::uint8_t {
  kNone,
  kClosed,      // the peer closed or died
  kBadFrame,    // not our protocol
  kBadLength,   // a length that nobody agreed to
  kBadTag,      // an encrypted stream: changed on the way, repeated, or not the peer's
  kBadMemory,   // outside the memory that the peer shares
  kUnreadable,  // the memory that the peer shares failed when it was read
  kRefused,     // ReceiveBuffers had no place for it
  kError,       // the operating system's word
};

struct Completion {
  CompletionKind kind;
  Loss loss = Loss::kNone;  // of kPeerLost; then only remove may be called for this peer
  PeerId peer;
  std::uint32_t immediate = 0;
  std::uint32_t bytes = 0;
  std::byte* data = nullptr;  // of kArrived: where the payload is. In the peer's memory for shm
                              // (stable until the reply to it), else where ReceiveBuffers said.
};

// Where an arriving write goes, for backends that move bytes. Called within poll.
class ReceiveBuffers {
 public:
  virtual ~ReceiveBuffers() = default;
  // Room for `bytes`, or null to refuse the write (the peer is then lost).
  virtual std::byte* acquire(PeerId peer, std::uint32_t immediate, std::uint32_t bytes) = 0;
  // The same of a write that comes with a checksum beside it (tcp; over verbs it is the write's
  // last word).
  virtual std::byte* acquire_checked(PeerId /*peer*/, std::uint32_t /*immediate*/,
                                     std::uint32_t /*bytes*/, std::uint32_t /*checksum*/) {
    return nullptr;
  }
  // There is something to be read from the peer, and there was not before, or the peer was paused.
  // False: poll reads it. True: the owner will, when it likes, by TcpEndpoint::read.
  virtual bool reads_later(PeerId /*peer*/) { return false; }
  // A place that was given and will not be completed: the peer is gone.
  virtual void release(PeerId peer, std::byte* data) = 0;
};

// Of an endpoint's peers, which are one core's connections.
inline Status all_taken(std::size_t peers) {
  return {Code::kResourceExhausted,
          "all " + std::to_string(peers) +
              " connections of this core are taken (raise connections_per_core)"};
}

// The sender's checksums: tcp and verbs carry one with each write that has one.
class Checksums {
 public:
  virtual ~Checksums() = default;
  // Of a write that is posted now; null: it goes without. Stays there as the write's data does.
  virtual const std::uint32_t* checksum(PeerId peer, std::uint32_t immediate) const = 0;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Starts writes to one peer, in order; returns how many were accepted. Fewer means
  // back-pressure: try the rest after a poll.
  virtual std::size_t post(PeerId peer, std::span<const Write> writes) = 0;

  // How many writes post is sure to accept now. 0: back-pressure, which a poll ends.
  virtual std::size_t room(PeerId peer) const = 0;

  // Moves things forward and reports what happened.
  virtual std::size_t poll(std::span<Completion> completions) = 0;

  // Sleeping: after arm() returned true, wait_fd() becomes readable when poll has something to do.
  // False: there is something already. disarm() before the next poll.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int wait_fd() const = 0;

  // A hint for arm: until this many more writes of the peer, with so many bytes in all, have
  // arrived, waking is of no use. It holds until the next one.
  virtual void expect(PeerId peer, std::uint32_t arrivals, std::uint64_t bytes) = 0;

  // Holds back what a peer writes: while it is paused, none of its writes is taken from where the
  // transport buffers them, so that in the end its posts are not accepted.
  virtual void pause(PeerId peer, bool paused) = 0;

  // Forgets a peer and closes what belongs to it.
  virtual void remove(PeerId peer) = 0;
};

// Makes what stands in front of an endpoint of `max_peers`, which outlives it; its owner calls
// what was made instead. An empty one makes nothing: nothing stands in front.
using EndpointFront =
    std::function<Result<std::unique_ptr<Endpoint>>(Endpoint& behind, std::uint32_t max_peers)>;

}  // namespace phub::transport
