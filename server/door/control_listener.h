// The listener of the control port, in front of gRPC. It takes connections in, waits for their
// first byte, and gives each a pump (pump/pump.h). The pump ends TLS, hands gRPC a connection of
// its own, and lets pass between the two what is within its bounds.
//
// gRPC's own listener (1.51) ends for good at the first error of accept, such as a lack of
// descriptors or a connection that was reset in the queue, and bounds nothing. Here there are
// places for those who have said nothing, and places for strangers of whom no call has succeeded;
// lobby.h says who gives way. Callers that are known leave those places.
//
// Has a thread of its own. Made and destroyed by a control thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "server/door/control_peers.h"
#include "server/door/pump/tls_context.h"

namespace phub::server {

struct ControlListenerOptions {
  std::string address = {};              // "host:port"; port 0: a free one
  ControlPeers* peers = nullptr;         // who calls; not null, outlives the listener
  std::function<TlsContext()> tls = {};  // for each new connection; none: plaintext
  std::size_t silent_max = 512;          // connections that have said nothing
  std::size_t strangers_max = 192;       // connections of which no call has succeeded
  std::size_t known_max = 4096;          // the others
  // Of them one tenant's; 0: half. Two tenants leave as much to each other, and a tenant of a
  // thousand workers has enough.
  std::size_t known_of_payer_max = 0;
  // What a stranger may send before it is turned out. A caller is known long before; how much
  // of it may be with gRPC at once is the pump's to say (pump/frame_gate.h).
  std::uint64_t stranger_bytes_max = std::uint64_t{1} << 20;
  // What a known connection may have sent beyond its whole messages. The largest message is a
  // quarter of it, and 2,000 such connections take what gRPC may hold.
  std::uint64_t unfinished_bytes_max = std::uint64_t{1} << 19;
  // The same of all known connections of one tenant together: a quarter of what gRPC may hold.
  std::uint64_t unfinished_of_payer_max = std::uint64_t{1} << 28;
  std::chrono::milliseconds first_byte{3000};
  std::chrono::milliseconds greeting{10'000};  // then, for TLS and the first words of HTTP/2
};

struct ControlDoorCounters {
  std::uint64_t handed_over = 0;  // to gRPC
  std::uint64_t turned_out = 0;   // place lost, address that failed too often, silence, no end
  std::uint64_t crowded_out = 0;  // of these, for others of their tenant's or other tenants'
  std::uint64_t unruly = 0;       // closed for frames that no client sends, or room it never made
  std::uint64_t held = 0;         // frames that had to wait, for time or for room
  std::uint64_t shortages = 0;    // times that there was no descriptor for another connection
};

class ControlListener {
 public:
  // Both on the listener's thread. Gives gRPC its end of a connection.
  using Serve = std::function<void(UniqueFd grpc_end)>;
  // A client's connection whose first byte has come: whether it was taken, for it is no caller's.
  using Divert = std::function<bool(UniqueFd& socket)>;

  // Listens when it returns; connections wait in the system's queue until start. Errors:
  // kInvalidArgument, kAlreadyExists (the port is in use), kUnavailable (no such host or address
  // here), kPermissionDenied; each names the field control_address and the cure.
  static Result<std::unique_ptr<ControlListener>> create(const ControlListenerOptions& options);

  virtual ~ControlListener() = default;
  ControlListener() = default;
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  // Once.
  virtual void start(Serve serve, Divert divert = {}) = 0;
  // When it returns, nobody comes in any more. Connections that are there go on until gRPC ends
  // them; the destructor waits for that, a second at most.
  virtual void stop() = 0;
  // A call from `peer`, in gRPC's words (control_peers.h), has succeeded, or was admitted.
  // `payer`: the tenant that it counts to, or "" (control_served.h). Any thread.
  virtual void know(const std::string& peer, const std::string& payer) = 0;
  // A message of so many bytes has come whole from `peer`. Any thread.
  virtual void count_message(const std::string& peer, std::uint64_t bytes) = 0;
  virtual ControlDoorCounters counters() const = 0;  // any thread
  virtual const std::string& address() const = 0;    // with the port that was picked
};

}  // namespace phub::server
