// One job on a data plane: its memory, its part on each core, and which of its workers are
// connected.
//
// Made and used by control threads. `setup` is held while a worker's memory is mapped or pinned;
// the counts may be asked for at any time.
#pragma once

#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/job/footprint.h"
#include "server/job/rack_routes.h"
#include "server/plane/core_set.h"
#include "server/plane/gathered_streams.h"
#include "server/plane/windows/shm_memory.h"
#include "server/plane/windows/verbs_memory.h"
#include "server/process/host_memory.h"

namespace phub::server {

using JobOnCores = std::vector<std::unique_ptr<JobOnCore>>;  // by core

class PlaneJob {
 public:
  using Executor = boost::asio::thread_pool::executor_type;
  static Result<std::shared_ptr<PlaneJob>> create(const JobLayout& layout, const CoreSet& cores,
                                                  const Executor& pool);

  // A worker has one connection to each core. Errors: kInvalidArgument, kAlreadyExists.
  Status take_place(std::uint32_t worker, std::uint32_t core);
  // The same by tcp where there are several streams: the last of them takes it, and is returned
  // with the others. Nothing: some are missing. Errors: also those of GatheredStreams::add.
  Result<std::vector<ArrivedStream>> gather(std::uint32_t worker, std::uint32_t core,
                                            ArrivedStream stream);
  void give_place(std::uint32_t worker, std::uint32_t core);

  // See DataPlane.
  Status know_rack(std::uint32_t rack, std::uint32_t cores);
  // The core's route to another rack; null: that rack's server has as many cores. It stays.
  const CoreRoute* route_to(std::uint32_t rack, std::uint32_t core) const;
  // The same by the rack's seat; null also of a worker's.
  const CoreRoute* route_of(std::uint32_t seat, std::uint32_t core) const;

  // Its memory as the core's device sees it, made at the first call. REQUIRES: setup.
  Result<std::shared_ptr<VerbsMemory>> memory_for(std::uint32_t core);
  // Disconnects one worker, and closes its streams that wait; the job goes on without it.
  void drop(std::uint32_t worker);
  // Disconnects all workers; nobody comes to it any more.
  void detach();

  JobCounters counters() const;
  // Its pushes in memory beyond what it was admitted with.
  std::uint64_t staged_beyond(const Offered& offered) const;
  // Counts what it may take, and what of that it has taken.
  void add_to(Room& room, const Offered& offered) const;

  const JobLayout& layout() const { return layout_; }
  const JobMemory& memory() const { return *memory_; }
  const JobOnCores& on_cores() const { return on_cores_; }

  // Where its workers are connected, one after another: their memory may be pinned for seconds.
  boost::asio::strand<Executor> setups;
  // Held by that, and while the job is detached.
  std::mutex setup;
  bool is_detached = false;  // under setup
  ShmMemory shm;             // under setup

 private:
  PlaneJob(const JobLayout& layout, const CoreSet& cores, const Executor& pool);
  Status check_place(std::uint32_t worker, std::uint32_t core) const;
  // Of parameters and state: what has come into memory with the first rounds; and tables.
  std::uint64_t touched_bytes() const;
  std::uint64_t staging_bytes() const;  // tcp's
  template <typename Found, typename FinderOf>
  std::vector<Found> found_by(FinderOf finder_of) const;

  const CoreSet& cores_;
  JobLayout layout_;
  const std::uint64_t bookkeeping_bytes_;
  std::shared_ptr<JobMemory> memory_;
  JobOnCores on_cores_;
  mutable std::mutex mutex_;                                // of what is below; taken last
  std::vector<bool> connected_;                             // [worker * cores + core]
  GatheredStreams gathered_;                                // the same
  std::map<std::uint32_t, std::uint32_t> rack_cores_;       // by rack, that are known
  std::map<std::uint32_t, std::vector<CoreRoute>> routes_;  // by rack, that has other cores
  std::map<const transport::verbs::OpenDevice*, std::shared_ptr<VerbsMemory>> verbs_;
};

}  // namespace phub::server
