// Who may have a data connection: what the handshake asks, and what it hands over.
//
// Values, and an interface that the data plane implements; the acceptor's one thread calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/handshake.h"
#include "common/transport/tcp/stream_keys.h"
#include "common/transport/verbs/introduction.h"
#include "server/plane/data_plane.h"

namespace phub::server {

// A worker that has proven who it is.
struct Candidate {
  transport::Hello hello;
  UniqueFd socket;
  std::vector<UniqueFd> descriptors;                 // shm: channel, then the worker's memory
  transport::verbs::Introduction introduction = {};  // verbs: the worker's queue pair
  std::optional<transport::StreamKeys> keys = {};    // tcp: of what follows, when it is encrypted
};

struct Admitted {
  std::uint64_t memory_bytes = 0;                              // shm: size of the parameters
  UniqueFd memory_fd;                                          // shm: descriptor to send along
  std::optional<transport::verbs::Introduction> introduction;  // verbs: ours
};

class Admission {
 public:
  virtual ~Admission() = default;
  // The secret of a member, or nothing.
  virtual std::optional<IssuedSecret> secret_of(const transport::Hello& hello) = 0;
  // Attaches the connection to its core, which may take as long as pinning the worker's memory
  // does, and then calls `done`, once, on whatever thread.
  using Done = std::function<void(Result<Admitted>)>;
  virtual void admit(Candidate candidate, Done done) = 0;
};

}  // namespace phub::server
