// One job on one core: its shard, its workers' connections, and what waits for the job's turn.
//
// Made by a control thread, then used by its core's thread only (counters and times: any thread).
// Nothing here allocates after create.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "server/chunks/shard.h"
#include "server/connections/ready_list.h"
#include "server/connections/round_times.h"
#include "server/sharing/arrival_queue.h"
#include "server/sharing/fair_share.h"
#include "server/sharing/price_list.h"

namespace phub::server {

struct WorkerCounters {
  Counter pushes;
  Counter bytes_received;
  Counter bytes_sent;
};

// The kind of a job's pushes, but for their transport.
PriceList::Kind kind_of(const JobLayout& layout);

class JobOnCore : public FairShare::Flow {
 public:
  static Result<std::unique_ptr<JobOnCore>> create(const JobLayout& layout, std::uint32_t core,
                                                   std::shared_ptr<JobMemory> memory);
  ~JobOnCore();
  JobOnCore(const JobOnCore&) = delete;
  JobOnCore& operator=(const JobOnCore&) = delete;

  // The shard took a push.
  void on_taken(std::uint32_t slot, const Arrival& arrival);
  // The same of a push that was dropped, for it was late.
  void on_dropped(std::uint32_t slot, const Arrival& arrival);
  // The rack above replied to a sum.
  void on_replied(const Arrival& arrival);
  // It was the last one of the chunk's round that a worker pushes.
  void on_gathered(std::uint32_t slot, const Arrival& arrival, const TickRate& rate) {
    ++gathered_;
    times.gathered(slot, arrival.arrived, rate);
  }

  // More staging is in use than a job in step needs, and so many buffers.
  bool staging_exceeds(std::size_t allowance) const {
    return staging->in_use() > buffers_in_step() + allowance;
  }
  // From now on so many buffers more than are in use.
  void allow_staging(std::size_t more) {
    staging_allowance = more + staging->in_use() - std::min(staging->in_use(), buffers_in_step());
  }
  // Of which so many buffers at most are a job in step's. Before anything arrives; by default it
  // is a few for each worker and a few megabytes.
  void limit_staging(std::size_t buffers) { staging_budget_ = buffers; }
  // Racks push each other some of their sums' elements, and each applies the rule.
  bool compresses_racks() const { return shard.exchange && shard.exchange->compresses(); }
  // Whether this connection's worker has pushed more than the slowest one that is connected.
  bool is_ahead(const Connection& connection) const;
  // Whether the slowest worker has pushed a chunk that another has not.
  bool is_slowest_waiting() const;

  const std::uint64_t job_id;
  const std::uint64_t tenant_id;
  const std::uint32_t weight;
  const std::uint32_t epoch;
  const std::uint32_t workers;      // have the first seats
  const std::uint32_t tcp_streams;  // of each worker that comes by tcp
  const std::uint32_t all_streams;  // if all members come so
  const Hyper hyper;                // until worker 0 sends others
  const PriceList::Kind kind;
  // With a quorum: what a push costs depends on how many are dropped, and share an update.
  Prices own_prices;
  // Where tcp's pushes are read into.
  const std::unique_ptr<BufferPool> staging;
  Shard shard;
  // By seat; null where there was none yet. Of several streams the first. One that is lost stays
  // until the job is detached, for pushes of its worker may wait for their turn.
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::unique_ptr<Connection>> above;  // by rack; empty: one rack
  ArrivalQueue arrivals;
  ReadyList ready;            // connections that have something to be read
  bool has_due_work = false;  // it is in the core's list of those (core/due_work.h)
  // Buffers beyond its budget, until it is back within it: holding workers back stopped it.
  std::size_t staging_allowance = 0;
  RoundTimes times;
  std::vector<WorkerCounters> worker_counters;  // by seat
  std::vector<WorkerCounters> above_counters;   // by rack, as `above`

 private:
  JobOnCore(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
            std::unique_ptr<BufferPool> buffers);
  std::size_t buffers_in_step() const {
    const DeferredUpdates* const gate = shard.updates.gate();
    return staging_budget_ + (gate == nullptr ? 0 : gate->sums()) +
           (shard.racks ? shard.racks->held() : 0) + (shard.open ? shard.open->rounds.held() : 0);
  }

  std::size_t staging_budget_;  // buffers
  std::uint64_t gathered_ = 0;  // chunks whose last push has come, of all rounds
};

}  // namespace phub::server
