// One pinned thread of the data path: receives, aggregates, optimizes and answers its chunks.
//
// run_once is the system: poll, take what arrived, answer what is complete. It takes no lock,
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
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/waiter.h"
#include "server/connection.h"
#include "server/drops.h"
#include "server/fair_share.h"
#include "server/landing_places.h"
#include "server/price_list.h"
#include "server/shard.h"

namespace phub::server {

struct CoreOptions {
  std::uint32_t index = 0;
  std::optional<std::uint32_t> cpu;  // where to pin the thread
  Waiting waiting;
  std::uint32_t max_connections = 256;
  std::shared_ptr<const transport::verbs::OpenDevice> device;  // its NIC; null: no RDMA
  std::function<void()> on_event;  // called by the core's thread after it reports a loss
  bool own_thread = true;          // false: there is none; who calls run_once is the core's thread
};

struct LossEvent {
  std::uint64_t job_id = 0;
  std::uint32_t worker = 0;
  std::string_view reason;  // a literal
};

class Core final : private transport::Placement {
 public:
  static Result<std::unique_ptr<Core>> create(const CoreOptions& options);
  ~Core() override;
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- control threads ----
  // A shard must be detached before it is destroyed.
  void detach(Shard* shard);
  Status connect_tcp(Shard* shard, std::uint32_t worker, transport::TcpStream stream);
  // `line` is the worker's for this core, from where `landing` counts (common/landing.h).
  Status connect_shm(Shard* shard, std::uint32_t worker, transport::ShmConnection connection,
                     std::byte* line, std::shared_ptr<const Landing> landing);
  // `connection` was prepared and connected on verbs(). `window` is the worker's.
  Status connect_verbs(Shard* shard, std::uint32_t worker, transport::VerbsConnection connection,
                       std::byte* window, std::shared_ptr<const Landing> landing);
  // For the set-up of a connection only; null: no RDMA.
  transport::VerbsEndpoint* verbs() { return verbs_.get(); }
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

  // A tenant's turn at weight 1, when others wait: some ten chunks over tcp, as many as are
  // answered together while they are in the cache.
  static constexpr std::chrono::microseconds kTurn{100};

  Core(const CoreOptions& options, std::uint32_t max_connections);
  template <typename Add>
  Status attach(std::unique_ptr<Connection> connection, transport::Endpoint& endpoint,
                std::vector<std::unique_ptr<Connection>>& connections, Add add);
  void run(const std::stop_token& stop);
  void destroy_ended();

  bool drain(transport::Endpoint& endpoint, std::vector<std::unique_ptr<Connection>>& connections);
  void attribute_reading(std::span<const transport::Completion> arrived, std::uint64_t spent);
  void on_arrived(Connection& connection, const transport::Completion& arrived, std::uint64_t now);
  bool serve();
  void serve(const Arrival& arrival);
  void serve_some(Shard& shard);
  void serve_alone(Shard& shard);
  void spend(Connection& connection, std::uint32_t bytes, std::uint64_t spent);
  void on_chunk(const Arrival& arrival);
  void on_hyper(const Arrival& arrival);
  void on_vote(const Arrival& arrival);
  void release_soon(Shard& shard);
  void release();
  void on_complete(Shard& shard, std::uint32_t slot);
  void drop_peer(Connection& connection, Drop cause, std::string_view reason);
  void answer(bool all);
  bool is_to_wait(const Connection& connection) const;
  void hold_back(Connection& connection);
  void release_held();
  bool answer(Connection& connection);
  void mark_dirty(Connection& connection);

  std::size_t reads_now(transport::PeerId peer) override;
  std::byte* place(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  void abandon(transport::PeerId peer, std::byte* data) override;

  CoreOptions options_;
  DropCounters drops_;
  std::unique_ptr<transport::TcpEndpoint> tcp_;
  std::unique_ptr<transport::ShmEndpoint> shm_;
  std::vector<std::unique_ptr<Connection>> tcp_connections_;  // by peer
  std::vector<std::unique_ptr<Connection>> shm_connections_;
  std::vector<std::unique_ptr<Connection>> verbs_connections_;
  LandingPlaces shm_places_{shm_connections_};
  LandingPlaces places_{verbs_connections_};
  std::unique_ptr<transport::VerbsEndpoint> verbs_;  // null: no RDMA
  std::vector<Connection*> dirty_;                   // with answers to send
  std::vector<Connection*> held_;                    // paused
  std::vector<Shard*> releasing_;                    // with held sums whose updates are due
  std::array<transport::Completion, 64> completions_;
  TickRate rate_ = TickRate::measure();
  std::uint64_t turn_ticks_ = rate_.ticks_of(kTurn);
  FairShare shares_{turn_ticks_};
  PriceList prices_;
  std::uint64_t tcp_polls_ = 1;
  std::unique_ptr<transport::Waiter> waiter_;
  Counter chunks_completed_;
  Counter bytes_received_;
  Counter bytes_sent_;
  std::atomic<std::uint32_t> connections_{0};
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  SpscRing<LossEvent> events_;
  std::mutex task_mutex_;  // among control threads: the ring has one producer
  SpscRing<Task*> tasks_{64};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace phub::server
