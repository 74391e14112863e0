// Why a wait was in vain, as far as this worker can tell.
//
// A function, called by the Client's thread.
#pragma once

#include <optional>
#include <vector>

#include "common/exchange/driver.h"
#include "common/plan/plan.h"
#include "worker/client/phub.h"

namespace phub::client {

struct TimedOut {
  const ClientOptions& options;
  const std::vector<KeySpec>& keys;
  const Plan& plan;
  const Progress& progress;
  std::optional<KeyId> key;  // that was waited for; nothing: all
  bool owes_vote = false;    // keys were pushed since the last vote, if there are votes
};

// kDeadlineExceeded with the likely cause.
Status explain_timeout(const TimedOut& wait);

}  // namespace phub::client
