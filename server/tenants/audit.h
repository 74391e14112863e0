// Who changed what, and who was turned away: in the store and in the log.
//
// Owned by the daemon; any control thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "server/state/store.h"

namespace phub::server {

class AuditLog {
 public:
  explicit AuditLog(Store& store) : store_(store) {}

  // A record that cannot be stored is in the log at least, with the reason.
  void record(std::string_view principal, std::string_view action, std::string_view object,
              const Status& outcome);

  Result<std::vector<AuditRecord>> last(std::uint32_t count) { return store_.last_audits(count); }

 private:
  Store& store_;
};

}  // namespace phub::server
