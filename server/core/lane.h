// One transport of a core: its endpoint, the connections of its peers, and where their writes go.
//
// Made with its core, then its thread's; destroy_ended is for control threads.
#pragma once

#include <algorithm>
#include <vector>

#include "common/transport/transport.h"
#include "server/connections/connection.h"
#include "server/core/core_thread.h"

namespace phub::server {

class Lane : public transport::ReceiveBuffers {
 public:
  // What connections post to. A lane that is known by its type has the transport's own, which may
  // be behind this one.
  transport::Endpoint& endpoint() const { return *endpoint_; }
  void forget(Connection& connection) {
    std::replace(connections.begin(), connections.end(), &connection,
                 static_cast<Connection*>(nullptr));
  }
  // Waits for last writes of removed peers to leave, and destroys what is left of these peers, off
  // the core's thread.
  virtual void destroy_ended(CoreThread& /*thread*/) {}

  // By peer. They are their jobs'; a lost one is there until another takes its place, or its
  // job is detached.
  std::vector<Connection*> connections;

 protected:
  explicit Lane(std::uint32_t max_connections) : connections(max_connections) {}

  // Of the lane itself, which ends it: an endpoint may give back what is half received.
  transport::Endpoint* endpoint_ = nullptr;
};

}  // namespace phub::server
