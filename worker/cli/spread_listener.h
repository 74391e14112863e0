// What data.spread of a configuration needs before the job is joined: a listener for the other
// workers. At set-up; the main thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "worker/train/session.h"

namespace phub {

class WorkerConfig;

// Where this worker listens for the others, as it tells its servers.
struct PeerAddress {
  std::string host = {};   // empty: the address from which it joins
  std::uint16_t port = 0;  // 0: there are no others, or no data.spread
};

// Listens, and has the session's workers connect there. Errors name data.spread.address.
Result<PeerAddress> listen_for_peers(const WorkerConfig& config, train::SessionOptions& options);

}  // namespace phub
