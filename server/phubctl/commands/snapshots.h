// snapshot, snapshot delete, snapshots, restore.
//
// One thread; `snapshot` of several servers asks them at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/phubctl/commands/client.h"

namespace phub::phubctl {

struct SnapshotOptions {
  std::string job;
  std::uint64_t round = 0;  // 0: as soon as possible
  std::uint32_t wait_ms = 30'000;
  std::vector<std::string> also;  // the job's other servers
};

struct RestoreOptions {
  std::string file;
  std::string name;  // of the new job; empty: as it was
};

// Of several servers all at the same round.
Status take_snapshot(const Session& session, const SnapshotOptions& options);
Status list_snapshots(const Session& session);
Status delete_snapshot(const Session& session, const std::string& file);
Status restore_snapshot(const Session& session, const RestoreOptions& options);

}  // namespace phub::phubctl
