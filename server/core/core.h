// One pinned thread of the data path: receives, aggregates, optimizes and replies with its chunks.
//
// run_once is the system: poll, take what arrived, reply with what is complete. It takes no lock,
// allocates nothing and logs nothing. Cores share nothing with each other, but for the
// norms of jobs that clip (server/job/norm_board.h). Control threads talk to a core by tasks, which
// run between two rounds, and hear of lost workers through a ring.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ticks.h"
#include "server/core/core_thread.h"
#include "server/core/dispatch.h"
#include "server/core/paused_workers.h"
#include "server/core/tcp_lane.h"
#include "server/core/window_lanes.h"
#include "server/job/counters.h"

namespace phub::server {

struct CoreOptions {
  std::uint32_t index = 0;
  std::optional<std::uint32_t> cpu;  // where to pin the thread
  Waiting waiting;
  std::uint32_t max_connections = 256;
  std::chrono::microseconds tcp_delay{0};  // of what it sends by tcp, for benches and tests
  std::shared_ptr<const transport::verbs::OpenDevice> device;  // its NIC; null: no RDMA
  std::function<void()> on_event;  // called by the core's thread after it reports a loss
  bool own_thread = true;          // false: there is none; who calls run_once is the core's thread
  TickSource* time = nullptr;      // null: the processor's
};

// A rack to which sums are pushed, and whose server knows this one as a member of its job's
// `epoch`.
struct RackAbove {
  std::uint32_t rack = 0;
  std::uint32_t epoch = 0;
};

class Core final {
 public:
  static Result<std::unique_ptr<Core>> create(const CoreOptions& options);

  // ---- control threads ----
  // A job must be detached before it is destroyed.
  void detach(JobOnCore* job);
  Status connect_tcp(JobOnCore* job, std::uint32_t worker, transport::TcpStream stream);
  // All streams of a worker whose job has several, by their index: all of them or none.
  Status connect_tcp(JobOnCore* job, std::uint32_t worker,
                     std::vector<transport::TcpStream> streams);
  // `line` is the worker's for this core, from where `layout` counts
  // (common/protocol/window_layout.h).
  Status connect_shm(JobOnCore* job, std::uint32_t worker, transport::ShmConnection peer,
                     std::byte* line, std::shared_ptr<const WindowLayout> layout);
  // `peer` was prepared and connected by connector(). `window` is the worker's.
  Status connect_verbs(JobOnCore* job, std::uint32_t worker, transport::VerbsConnection peer,
                       std::byte* window, std::shared_ptr<const WindowLayout> layout);
  // The same to a core of another rack. Over shm the peer's memory is what it replies from; over
  // verbs `layout` is of the window that it gives this core for sums.
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::TcpStream stream);
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::ShmConnection peer);
  Status connect_rack(JobOnCore* job, const RackAbove& above, transport::VerbsConnection peer,
                      std::shared_ptr<const WindowLayout> layout);
  // REQUIRES: RDMA.
  transport::verbs::Connector& connector() { return verbs_->endpoint().connector(); }
  // Runs `function` on the core's thread, between two rounds, and returns when it is done.
  void call(std::function<void()> function) { thread_->call(std::move(function)); }
  // The same loss as that of a connection: the worker is lost elsewhere. Nothing happens where it
  // has none that works.
  void lose(JobOnCore* job, std::uint32_t worker, std::string_view reason);
  // Ends its sleep, from any thread.
  void wake() { thread_->wake(); }
  std::optional<LossEvent> next_event() { return losses_.next_event(); }  // one consumer
  CoreCounters counters() const;
  const DropCounters& drops() const { return losses_.drops(); }

  // ---- the core's thread ----
  bool run_once();

 private:
  explicit Core(const CoreOptions& options);
  // Into its place, among its job's connections.
  template <typename OneLane, typename Peer>
  Status attach(OneLane& lane, std::unique_ptr<Connection> connection, Peer peer,
                std::unique_ptr<Connection>& place);
  template <typename OneLane, typename Peer>
  Status enter(OneLane& lane, Connection& connection, Peer peer);
  void leave(Connection& connection);

  bool drain(Lane& lane);
  bool read(JobOnCore& job);
  void on_arrived(Connection& connection, const transport::Completion& arrived, std::uint64_t now);
  bool serve();
  bool serve_alone(JobOnCore& job);
  void serve_some(JobOnCore& job);
  std::chrono::milliseconds rest() const;

  CoreOptions options_;
  Turns turns_;
  std::unique_ptr<ShmLane> shm_;
  std::unique_ptr<TcpLane> tcp_;
  std::unique_ptr<VerbsLane> verbs_;  // null: no RDMA
  std::vector<Lane*> lanes_;          // those of the above that there are
  Replies replies_;
  DueWork due_;
  Losses losses_;
  Dispatch dispatch_;
  PausedWorkers paused_;
  std::array<transport::Completion, 64> completions_;
  Counter bytes_received_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::unique_ptr<CoreThread> thread_;  // last: it uses all of the above
};

}  // namespace phub::server
