// Attaches workers and racks to a core, and detaches jobs from it.
//
// Control threads call it. Each call runs a task on the core's thread, between two rounds, and
// returns when the task is done. Errors: kAlreadyExists, if the peer has or had a connection to
// this core, and those of the transport's endpoint, for example when the core is full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/core/core_lanes.h"
#include "server/core/losses.h"
#include "server/core/paused_workers.h"

namespace phub::server {

// A rack to which sums are pushed, and whose server knows this one as a member of its job's
// `epoch`.
struct RackAbove {
  std::uint32_t rack = 0;
  std::uint32_t epoch = 0;
  // Where that server has another number of cores: this core's route to them, which outlives the
  // connection, and which of the route's peers is connected. Null: one core there has its chunks.
  const CoreRoute* route = nullptr;
  std::uint32_t peer = 0;
};

class Attachments {
 public:
  // The core's parts that know a connection or a job. They outlive it.
  struct Parts {
    CoreLanes& lanes;
    CoreThread& thread;
    Turns& turns;
    Replies& replies;
    DueWork& due;
    PausedWorkers& paused;
    Losses& losses;
  };
  explicit Attachments(const Parts& core) : core_(core) {}

  // Ends all connections of the job here. A job must be detached before it is destroyed.
  void detach(JobOnCore* job);

  Status connect_tcp(JobOnCore* job, std::uint32_t worker, transport::TcpStream stream);
  // All streams of a worker whose job has several, by their index: all of them or none. The same of
  // a rack whose server has other cores, by the peers of `route`, which outlives the connection.
  Status connect_tcp(JobOnCore* job, std::uint32_t worker,
                     std::vector<transport::TcpStream> streams, const CoreRoute* route = nullptr);
  // `line` is the worker's for this core. The offsets in `layout` count from it
  // (common/protocol/window_layout.h).
  Status connect_shm(JobOnCore* job, std::uint32_t worker, transport::ShmConnection peer,
                     std::byte* line, std::shared_ptr<const WindowLayout> layout);
  // `peer` was prepared and connected by connector(). `window` is the worker's.
  Status connect_verbs(JobOnCore* job, std::uint32_t worker, transport::VerbsConnection peer,
                       std::byte* window, std::shared_ptr<const WindowLayout> layout);
  // The same to a core of another rack; with a route by tcp only, the peers in their order. Over
  // shm that core replies from the peer's memory. Over verbs `layout` is of the window that it
  // gives this core for sums.
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::TcpStream stream);
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::ShmConnection peer);
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::VerbsConnection peer,
                      std::shared_ptr<const WindowLayout> layout);
  // REQUIRES: RDMA.
  transport::verbs::Connector& connector() { return core_.lanes.verbs->endpoint().connector(); }

 private:
  // Puts the connection into its place among its job's connections.
  template <typename OneLane, typename Peer>
  Status attach(OneLane& lane, std::unique_ptr<Connection> connection, Peer peer,
                std::unique_ptr<Connection>& place);

  // ---- the core's thread ----
  // The lane's endpoint makes a peer of `peer`.
  template <typename OneLane, typename Peer>
  Status enter(OneLane& lane, Connection& connection, Peer peer);
  // REQUIRES: the connection is not lost.
  void leave(Connection& connection);
  // Ends the connection with all of its streams, lost or not.
  void end(std::unique_ptr<Connection>& connection);

  Parts core_;
};

}  // namespace phub::server
