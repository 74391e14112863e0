// The phub-server and worker processes of a scenario, each in its host's namespace.
//
// Belongs to the bench's main thread; the processes end with the object, before the testbed.
#pragma once

#include <memory>
#include <vector>

#include "bench/compare/systems.h"
#include "bench/processes/child_process.h"
#include "bench/rack/testbed.h"

namespace phub::bench {

class RackCluster {
 public:
  // Returns when all workers are connected and idle. REQUIRES: the testbed lives longer.
  static Result<std::unique_ptr<RackCluster>> start(const Fabric& fabric, const Work& work,
                                                    const Testbed& testbed, const RackTools& tools,
                                                    Places& places);
  ~RackCluster();
  RackCluster(const RackCluster&) = delete;
  RackCluster& operator=(const RackCluster&) = delete;

  System& system() { return system_; }

 private:
  RackCluster() = default;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  System system_;
};

}  // namespace phub::bench
