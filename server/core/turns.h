// Whose turn it is on a core, what its time goes to, and the clock that says how much it was.
// Belongs to the core's thread.
#pragma once

#include <chrono>

#include "common/base/ticks.h"
#include "server/connections/connection.h"
#include "server/sharing/fair_share.h"
#include "server/sharing/price_list.h"

namespace phub::server {

struct Turns {
  // A tenant's turn at weight 1, when others wait: some ten chunks over tcp, as many as are
  // replied to together while they are in the cache.
  static constexpr std::chrono::microseconds kTurn{100};

  explicit Turns(const Clock& clock_) : clock(clock_) {}

  std::uint64_t now() const { return clock.now(); }
  const TickRate& rate() const { return clock.rate(); }
  // Several jobs want the core.
  bool are_taken() const { return shares.awake() > 1; }

  // Core time that pushes of about this size took, of whichever of their parts: they pay for it by
  // their price when they are served.
  void spend(Connection& connection, std::uint32_t bytes, std::uint64_t spent) const {
    connection.job->times.worked(spent);
    if (are_taken()) connection.prices->spent(bytes, spent);
  }
  // Core time that was of no push in particular: the job pays at once.
  void charge(JobOnCore& job, std::uint64_t spent) {
    job.times.worked(spent);
    shares.charge(job, spent);
  }

  Clock clock;
  std::uint64_t turn_ticks = clock.rate().ticks_of(kTurn);
  FairShare shares{turn_ticks};
  PriceList prices;
};

}  // namespace phub::server
