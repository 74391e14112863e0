// One reliable connection of a VerbsEndpoint, from its making to its end. A value with one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/unique_fd.h"
#include "common/transport/verbs/device/objects.h"
#include "common/transport/verbs/introduction.h"
#include "common/transport/verbs/queue_pair.h"

namespace phub::transport {

// A registration beside the connection's own that writes may come from.
struct VerbsSource {
  std::span<const std::byte> bytes;  // addresses only: it may be a device's memory
  std::uint32_t key = 0;             // lkey, of the connection's domain
};

// What a connection is made of; the registrations are on the endpoint's device.
struct VerbsRegions {
  std::shared_ptr<void> owner;
  ibv_pd* domain = nullptr;
  std::uint32_t source_key = 0;  // lkey of what our writes come from
  std::uint32_t window_key = 0;  // rkey of what the window is a part of
  // Not null: the peer's window has the layout of our memory from here on, so that a write goes
  // where it comes from, and the Layout is not asked.
  const std::byte* mirrored = nullptr;
  std::span<std::byte> window;  // the peer's writes go here
};

// A connection that is being made. What it holds outlives its queue pair.
struct VerbsConnection {
  UniqueFd socket;               // the stream of the set-up: liveness
  std::shared_ptr<void> memory;  // keeps domain and registrations alive
  // Its entries of the completion queue; given back when the connection is destroyed, also when it
  // never came about.
  std::shared_ptr<void> reservation;
  verbs::QueuePair pair;
  verbs::Depths depths;
  std::uint32_t refill = 1;  // receives that may be missing before they are posted again
  verbs::Introduction own;
  std::uint32_t source_key = 0;         // of the registration that our writes come from
  VerbsSource second;                   // those from here are another's; may be empty
  const std::byte* mirrored = nullptr;  // VerbsRegions's
  verbs::Introduction peer;             // filled in when the peer has told it
};

}  // namespace phub::transport
