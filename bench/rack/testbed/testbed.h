// A fabric that is built in this machine's kernel, for as long as the object lives; and the removal
// of what runs left that were killed.
//
// Belongs to the bench's main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/processes/work.h"
#include "bench/rack/testbed/fabric.h"
#include "bench/rack/testbed/site.h"
#include "bench/rack/testbed/tools.h"
#include "common/base/status.h"

namespace phub::bench {

class Testbed final : public RackSite {
 public:
  // Builds all of it or nothing; the places' scratch folder is marked as ours first. REQUIRES: one
  // testbed in a process at a time.
  static Result<std::unique_ptr<Testbed>> build(const Fabric& fabric, const RackLinks& links,
                                                const RackTools& tools, Places& places);
  // Removes the namespaces, and with them the links; processes in them end.
  ~Testbed() override;
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;

  Result<std::vector<std::string>> command(const RackHost& host,
                                           const HostProgram& program) const override;

  // The words in front of a command that is to run on the host.
  std::vector<std::string> within(const RackHost& host) const {
    return tools_.within(space(host.name));
  }
  // What programs on the host use that ask for nothing else.
  Status set_congestion(const RackHost& host, const std::string& name) const;

  // Takes the link of a host, or the uplink of a rack, out of service.
  Status cut_link(const RackHost& host) const { return set_down(host.name); }
  Status cut_uplink(std::uint32_t rack) const { return set_down(uplink_of(rack)); }

  // The namespace of a host, or of the switches.
  std::string space(std::string_view host) const { return space_of(owner_, host); }

 private:
  Testbed(std::string owner, const RackTools& tools, Places& places)
      : owner_(std::move(owner)), tools_(tools), places_(places) {}
  Status set_down(const std::string& port) const;

  std::string owner_;
  RackTools tools_;
  Places& places_;
};

// Says in the scratch folder whose it is, so that it can be removed when its owner was killed.
Status mark_scratch(const Places& places);

// Ends processes in, and removes, namespaces and scratch folders whose owners are gone; their
// names. Errors: what could not be removed.
Result<std::vector<std::string>> remove_leftovers(const RackTools& tools);

}  // namespace phub::bench
