// The listener of the control port, in front of gRPC: takes connections in, waits for their first
// byte, and hands them to the server, which does TLS and HTTP/2 on them.
//
// gRPC's own listener (1.51) ends for good at the first error of accept, such as a lack of
// descriptors or a connection that was reset in the queue, and bounds nothing. Here there are
// places for those who have said nothing, and places for strangers whom gRPC has and of whom no
// call has succeeded; lobby.h says who gives way. Callers that are known leave those places.
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

namespace phub::server {

struct ControlListenerOptions {
  std::string address = {};         // "host:port"; port 0: a free one
  std::size_t silent_max = 512;     // connections that have said nothing
  std::size_t strangers_max = 512;  // connections of which no call has succeeded
  std::size_t known_max = 4096;     // the others
  // Of them one tenant's; 0: half. Two tenants leave as much to each other, and a tenant of a
  // thousand workers has enough.
  std::size_t known_of_payer_max = 0;
  // What a stranger may send before it is turned out. A caller is known long before, and 512 such
  // strangers take half of what gRPC may hold.
  std::uint64_t stranger_bytes_max = std::uint64_t{1} << 20;
  // What a known connection may have sent beyond its whole messages. The largest message is a
  // quarter of it, and 2,000 such connections take what gRPC may hold.
  std::uint64_t unfinished_bytes_max = std::uint64_t{1} << 19;
  // The same of all known connections of one tenant together: a quarter of what gRPC may hold.
  std::uint64_t unfinished_of_payer_max = std::uint64_t{1} << 28;
  std::chrono::milliseconds first_byte{3000};
};

struct ControlDoorCounters {
  std::uint64_t handed_over = 0;  // to gRPC
  std::uint64_t turned_out = 0;   // place lost, address that failed too often, silence, no end
  std::uint64_t crowded_out = 0;  // of these, for others of their tenant's or other tenants'
  std::uint64_t shortages = 0;    // times that there was no descriptor for another connection
};

class ControlListener {
 public:
  using Serve = std::function<void(UniqueFd socket)>;  // on the listener's thread

  // Listens when it returns; connections wait in the system's queue until start. Errors:
  // kInvalidArgument, kAlreadyExists (the port is in use), kUnavailable (no such host or address
  // here), kPermissionDenied; each names the field control_address and the cure.
  static Result<std::unique_ptr<ControlListener>> create(const ControlListenerOptions& options);

  virtual ~ControlListener() = default;  // stops
  ControlListener() = default;
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  // Once.
  virtual void start(Serve serve) = 0;
  // Nobody is served any more when it returns; know() may still be called, and does nothing.
  virtual void stop() = 0;
  // A call from `peer`, in gRPC's words ("ipv4:127.0.0.1:40000"), has succeeded, or was admitted.
  // `payer`: the tenant that it counts to, or "" (control_served.h). Any thread.
  virtual void know(const std::string& peer, const std::string& payer) = 0;
  // A message of so many bytes has come whole from `peer`. Any thread.
  virtual void count_message(const std::string& peer, std::uint64_t bytes) = 0;
  virtual ControlDoorCounters counters() const = 0;  // any thread
  virtual const std::string& address() const = 0;    // with the port that was picked
};

}  // namespace phub::server
