// A job's snapshots at the servers of its other racks, asked for by this rack's server as a member.
//
// Any thread, one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/rendezvous/rendezvous.h"
#include "server/job/rack_links.h"

namespace phub::server {

// A server of another rack that this one is a member at. It may outlive the link.
struct LinkedServer {
  std::string rack;
  std::string address;
  std::shared_ptr<client::Rendezvous> server;
};

class SnapshotsThere final : public RackSnapshots {
 public:
  SnapshotsThere(std::vector<LinkedServer> servers, std::uint64_t round,
                 std::chrono::milliseconds timeout);

  bool is_over() const override;
  Result<std::vector<RackFile>> files() override;

 private:
  const std::vector<LinkedServer> servers_;
  std::vector<client::Later<Result<client::Rendezvous::Files>>> asked_;  // by server
};

}  // namespace phub::server
