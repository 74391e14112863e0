// Counts what links and CPUs do while workers work, in namespaces; nothing of machines elsewhere.
//
// Belongs to the bench's main thread.
#pragma once

#include <optional>
#include <vector>

#include "bench/rack/testbed/load.h"
#include "bench/rack/testbed/losses.h"

namespace phub::bench {

class RackCounters {
 public:
  // `testbed`: null: the hosts are elsewhere. What is named has to live longer.
  RackCounters(const Fabric& fabric, const Testbed* testbed, const RackTools* tools)
      : fabric_(fabric), testbed_(testbed), tools_(tools), load_(fabric) {}

  // Losses are counted from open to close, all else from start to stop, again and again.
  Status open();
  Status start();
  Status stop();
  Status close();

  const RackLoad& load() const { return load_; }
  const std::vector<LinkLosses>& losses() const { return losses_; }  // empty: not counted

 private:
  const Fabric& fabric_;
  const Testbed* testbed_;
  const RackTools* tools_;
  RackLoad load_;
  std::optional<RackSample> started_;
  std::vector<LinkLosses> opened_;
  std::vector<LinkLosses> losses_;
};

}  // namespace phub::bench
