#include "server/core/due_updates.h"

namespace phub::server {

void DueUpdates::add(Shard& shard) {
  if (shard.is_releasing) return;
  shard.is_releasing = true;
  shards_.push_back(&shard);
}

void DueUpdates::run() {
  for (Shard* const shard : shards_) {
    if (turns_.are_taken() && shard->is_awake() && turns_.shares.owed(*shard) == 0) continue;
    run(*shard);
  }
  std::erase_if(shards_, [](Shard* shard) {
    shard->is_releasing = !shard->stopped() && shard->has_releasable();
    return !shard->is_releasing;
  });
}

void DueUpdates::run(Shard& shard) {
  const std::uint64_t start = turns_.now();
  do {
    for (const std::uint32_t slot : shard.release(1)) {
      shard.times->completed(slot, turns_.now());
      replies_.complete(shard, slot);
    }
  } while (!shard.stopped() && shard.has_releasable() && turns_.now() - start < turns_.turn_ticks);
  if (turns_.shares.awake() > 0) turns_.shares.wake(shard);  // others wait: it owes them this
  turns_.charge(shard, turns_.now() - start);
}

}  // namespace phub::server
