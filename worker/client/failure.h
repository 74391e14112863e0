// Why a wait was in vain, as far as this worker can tell.
//
// Functions, called by the Client's thread.
#pragma once

#include <optional>
#include <vector>

#include "common/exchange/driver.h"
#include "common/plan/plan.h"
#include "common/rendezvous/heartbeats.h"
#include "worker/client/phub.h"

namespace phub::client {

struct TimedOut {
  const ClientOptions& options;
  const std::vector<KeySpec>& keys;
  const Plan& plan;
  const ExchangeDriver& driver;
  std::optional<KeyId> key;  // that was waited for; nothing: all
  bool owes_vote = false;    // keys were pushed since the last vote, if there are votes
};

// What ended a wait: a data connection, a server or a worker.
Status explain_failure(const ExchangeDriver& driver, Heartbeats& heartbeat,
                       const Membership& membership);

// kDeadlineExceeded with the likely cause.
Status explain_timeout(const TimedOut& wait);

}  // namespace phub::client
