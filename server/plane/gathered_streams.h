// Tcp streams that have come and wait for the others of their worker to the same core, of jobs in
// which each worker has several: the core is given all of them at once, or none. The same of the
// cores of a rack's server that has others than this one.
//
// What waits belongs to the member that proved who it is by a secret. It goes when another member
// has that seat, which brings another secret, when the job goes on without it, and with the job. So
// a worker that dies on the way leaves at most kMaxTcpStreams - 1 sockets for each core, and keeps
// nobody from its seat.
//
// A value; whoever owns it locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/tcp/stream_keys.h"
#include "server/plane/data_plane.h"

namespace phub::server {

struct ArrivedStream {
  std::uint32_t index = 0;  // of its worker's
  Secret secret{};          // the member's
  UniqueFd socket;
  std::optional<transport::StreamKeys> keys = {};  // when it is encrypted
};

class GatheredStreams {
 public:
  // One more to a place, which is a member's at a core and has `streams` of them. Returns all, by
  // index, if it was the last one missing; else nothing. Errors: kInvalidArgument, it is none of so
  // many; kAlreadyExists.
  Result<std::vector<ArrivedStream>> add(std::size_t place, ArrivedStream stream,
                                         std::uint32_t streams);
  // Closes what waits there.
  void forget(std::size_t place) { places_.erase(place); }
  void clear() { places_.clear(); }

 private:
  using Place = std::vector<ArrivedStream>;  // of one member, in the order in which they came

  std::map<std::size_t, Place> places_;
};

}  // namespace phub::server
