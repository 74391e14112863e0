// The phub-server processes of a scenario, each on its host, and the workers that exchange.
//
// Belongs to the bench's main thread; the processes end with the objects, before the hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/compare/systems.h"
#include "bench/processes/child_process.h"
#include "bench/rack/testbed/site.h"
#include "proto/rack.pb.h"

namespace phub::bench {

class RackCluster {
 public:
  // Returns when all servers are ready, but for those that start late. REQUIRES: the site lives
  // longer.
  static Result<std::unique_ptr<RackCluster>> start(const Fabric& fabric,
                                                    const RackScenario& scenario,
                                                    const RackSite& site, Places& places);
  ~RackCluster();
  RackCluster(const RackCluster&) = delete;
  RackCluster& operator=(const RackCluster&) = delete;

  // At once, as a fault. REQUIRES: by the order of the hosts, there is such a server.
  void kill(std::uint32_t server);

  // Of the control planes of the servers that a worker's host talks to.
  std::vector<std::string> addresses_for(const RackHost& host) const;

 private:
  RackCluster() = default;

  bool is_elsewhere_ = false;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  struct Address {
    std::uint32_t rack;
    std::string text;
  };
  std::vector<Address> addresses_;  // of all
  bool is_joined_ = false;
};

// Returns when all workers are connected and idle; with faults, or cannot start. Joined racks may
// have several at a time, whose scenarios differ in their shape. REQUIRES: the cluster lives
// longer.
Result<std::unique_ptr<System>> start_exchange(const Fabric& fabric, const RackScenario& scenario,
                                               const RackCluster& cluster, const RackSite& site,
                                               Places& places);

}  // namespace phub::bench
