// The workers of a job that serve each other data, as the job's first server names them. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/rendezvous/join_info.h"

namespace phub::client {

// Where a worker listens for the others.
struct PeerPlace {
  std::uint32_t worker = 0;
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

// What a worker tells its servers of itself.
struct PeerListens {
  std::string host = {};   // empty: the address from which it joins
  std::uint16_t port = 0;  // 0: it does not listen for others
};

struct PeerGroup {
  std::uint64_t job_id = 0;  // of the first server
  std::uint32_t epoch = 0;
  std::uint32_t own = 0;           // the place of this worker in `peers`
  std::vector<PeerPlace> peers{};  // by worker; of a job in racks those of the own rack
  Secret key{};                    // of the job: its members alone have it
  bool encrypts = false;           // as the first server's data plane does
};

}  // namespace phub::client
