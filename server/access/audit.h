// Who changed what, and who was turned away: in the store and in the log.
//
// Nobody can push out what others did: administrators' acts are kept apart from all else, whoever
// has most records makes room for the next one, and failures are recorded so fast only for each
// principal; how many were left out is in its next record. Words are cut between characters, so
// that each is valid UTF-8.
//
// Owned by the daemon; any control thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "server/process/token_bucket.h"
#include "server/state/store.h"

namespace phub::server {

struct Actor {
  std::string_view name;
  bool is_admin = false;
};

class AuditLog {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // Failures of one principal that are recorded at once, and how long until one more is.
  static constexpr int kFailuresAtOnce = 20;
  static constexpr std::chrono::seconds kFailureInterval{6};
  static constexpr std::size_t kPrincipalsMax = 256;  // counted apart; others share one budget

  explicit AuditLog(Store& store, Clock clock = std::chrono::steady_clock::now)
      : store_(store), clock_(std::move(clock)) {}

  // A record that cannot be stored is in the log at least, with the reason.
  void record(const Actor& actor, std::string_view action, std::string_view object,
              const Status& outcome);

  Result<std::vector<AuditRecord>> last(std::uint32_t count) { return store_.last_audits(count); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Budget {
    TokenBucket failures;
    TimePoint last;  // failure
    std::uint64_t left_out = 0;
  };

  // How many failures of this principal were left out before this one; none: leave it out too.
  std::optional<std::uint64_t> admit_failure(std::string_view principal);
  Budget& budget_of(std::string_view principal, TimePoint now);

  Store& store_;
  const Clock clock_;
  std::mutex mutex_;  // budgets_
  std::map<std::string, Budget, std::less<>> budgets_;
};

}  // namespace phub::server
