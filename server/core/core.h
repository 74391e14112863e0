// One pinned thread of the data path: receives, aggregates, optimizes and replies with its chunks.
//
// run_once is the system: poll, take what arrived, reply with what is complete. It takes no lock,
// allocates nothing and logs nothing. Cores share nothing with each other. Control threads talk to
// a core by tasks, which run between two rounds, and hear of lost workers through a ring.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include "common/base/spsc_ring.h"
#include "common/base/ticks.h"
#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/waiter.h"
#include "server/core/drops.h"
#include "server/core/due_updates.h"
#include "server/core/landing_places.h"
#include "server/core/paused_workers.h"
#include "server/core/replies.h"
#include "server/core/tcp_reader.h"

namespace phub::server {

struct CoreOptions {
  std::uint32_t index = 0;
  std::optional<std::uint32_t> cpu;  // where to pin the thread
  Waiting waiting;
  std::uint32_t max_connections = 256;
  std::shared_ptr<const transport::verbs::OpenDevice> device;  // its NIC; null: no RDMA
  std::function<void()> on_event;  // called by the core's thread after it reports a loss
  bool own_thread = true;          // false: there is none; who calls run_once is the core's thread
  TickSource* time = nullptr;      // null: the processor's
};

struct LossEvent {
  std::uint64_t job_id = 0;
  std::uint32_t worker = 0;
  std::string_view reason;  // a literal
};

class Core final {
 public:
  static Result<std::unique_ptr<Core>> create(const CoreOptions& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- control threads ----
  // A shard must be detached before it is destroyed.
  void detach(Shard* shard);
  Status connect_tcp(Shard* shard, std::uint32_t worker, transport::TcpStream stream);
  // `line` is the worker's for this core, from where `landing` counts
  // (common/protocol/window_layout.h).
  Status connect_shm(Shard* shard, std::uint32_t worker, transport::ShmConnection connection,
                     std::byte* line, std::shared_ptr<const WindowLayout> landing);
  // `connection` was prepared and connected by connector(). `window` is the worker's.
  Status connect_verbs(Shard* shard, std::uint32_t worker, transport::VerbsConnection connection,
                       std::byte* window, std::shared_ptr<const WindowLayout> landing);
  // REQUIRES: RDMA.
  transport::verbs::Connector& connector() { return verbs_->connector(); }
  // Runs `function` on the core's thread, between two rounds, and returns when it is done.
  void call(std::function<void()> function);
  std::optional<LossEvent> next_event() { return events_.pop(); }  // one consumer
  CoreCounters counters() const;
  // Times in nanoseconds since `start` (ticks). REQUIRES: the shard is on this core.
  std::vector<RoundRecord> rounds(const Shard& shard, std::size_t count, std::uint64_t start);
  CoreJobCounters job_counters(const Shard& shard) const;
  const DropCounters& drops() const { return drops_; }

  // ---- the core's thread ----
  bool run_once();

 private:
  struct Task {
    std::function<void()> run;
    std::binary_semaphore done{0};
  };

  Core(const CoreOptions& options, std::uint32_t max_connections);
  template <typename Add>
  Status attach(std::unique_ptr<Connection> connection, transport::Endpoint& endpoint,
                std::vector<Connection*>& connections, Add add);
  void forget(Connection& connection);
  void run(const std::stop_token& stop);
  void destroy_ended();

  bool drain(transport::Endpoint& endpoint, const std::vector<Connection*>& connections);
  bool read(Shard& shard);
  void on_arrived(Connection& connection, const transport::Completion& arrived, std::uint64_t now);
  bool serve();
  bool serve_alone(Shard& shard);
  void serve_some(Shard& shard);
  void serve(const Arrival& arrival);
  void on_chunk(const Arrival& arrival);
  void on_hyper(const Arrival& arrival);
  void on_vote(const Arrival& arrival);
  void drop_peer(Connection& connection, Drop cause, std::string_view reason);

  CoreOptions options_;
  DropCounters drops_;
  Turns turns_;
  // By peer. They are their shards'; a lost one is there until another takes its place, or its
  // shard is detached.
  std::vector<Connection*> tcp_connections_;
  std::vector<Connection*> shm_connections_;
  std::vector<Connection*> verbs_connections_;
  LandingPlaces shm_places_{shm_connections_};
  LandingPlaces places_{verbs_connections_};
  std::unique_ptr<TcpReader> tcp_;
  std::unique_ptr<transport::ShmEndpoint> shm_;
  std::unique_ptr<transport::VerbsEndpoint> verbs_;  // null: no RDMA
  Replies replies_;
  DueUpdates updates_;
  PausedWorkers paused_;
  std::array<transport::Completion, 64> completions_;
  std::unique_ptr<transport::Waiter> waiter_;
  Counter bytes_received_;
  std::atomic<std::uint32_t> connections_{0};
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  SpscRing<LossEvent> events_;
  std::mutex task_mutex_;  // among control threads: the ring has one producer
  SpscRing<Task*> tasks_{64};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace phub::server
