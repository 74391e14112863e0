// The data plane of a real daemon: cores with threads of their own, their listener, the jobs'
// memory.
//
// Made by DataPlane::create. data_plane.cc has jobs, data_plane_connections.cc how workers come in,
// data_plane_counters.cc what people ask for, data_plane_copies.cc snapshots.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/core/core.h"
#include "server/job/footprint.h"
#include "server/job/memory.h"
#include "server/plane/acceptor.h"
#include "server/plane/core_ports.h"
#include "server/plane/data_plane.h"
#include "server/plane/shm_memory.h"
#include "server/plane/verbs_memory.h"
#include "server/process/host_memory.h"

namespace phub::server {

class PinnedDataPlane final : public DataPlane, private Admission {
 public:
  PinnedDataPlane(const DataPlaneOptions& options, MembershipListener& membership)
      : options_(options), membership_(membership) {}

  ~PinnedDataPlane() override;
  PinnedDataPlane(const PinnedDataPlane&) = delete;
  PinnedDataPlane& operator=(const PinnedDataPlane&) = delete;

  // Once, before any other call. Errors: see DataPlane::create.
  Status open();

  Status create_job(const JobLayout& shape) override;
  Result<std::shared_ptr<const void>> reserve(std::uint64_t bytes,
                                              const std::string& what) override;
  void remove_job(std::uint64_t job_id) override;

  std::uint32_t cores() const override { return static_cast<std::uint32_t>(cores_.size()); }
  std::uint16_t tcp_port() const override { return acceptor_->tcp_port(); }
  bool encrypts_tcp() const override { return options_.encrypt_tcp; }
  std::string shm_socket() const override { return shm_socket_; }
  std::vector<CorePort> verbs_ports() const override;
  std::vector<PortStatus> port_statuses() const override {
    return statuses_of(ports_, options_.sysfs_root);
  }
  StagedBeyond staged_beyond() const override;
  std::optional<JobCounters> job_counters(std::uint64_t job_id) const override;
  std::vector<CoreRounds> job_rounds(std::uint64_t job_id, std::size_t rounds) const override;
  std::unique_ptr<CopyUnderWay> copy_job(std::uint64_t job_id, const CopyMoment& moment) override;
  std::vector<CoreCounters> core_counters() const override;
  std::vector<DropCounter> drops() const override;

 private:
  using Pool = boost::asio::thread_pool;
  struct Job {
    explicit Job(const Pool::executor_type& pool) : setups(pool) {}

    JobLayout shape;
    std::map<const transport::verbs::OpenDevice*, std::shared_ptr<VerbsMemory>> verbs;
    std::shared_ptr<JobMemory> memory;
    std::unique_ptr<ShmMemory> shm;
    std::vector<std::unique_ptr<JobOnCore>> on_cores;  // by core
    std::vector<bool> connected;                       // [worker * cores + core]
    std::uint64_t bookkeeping_bytes = 0;
    // Where its workers are connected, one after another: their memory may be pinned for seconds.
    boost::asio::strand<Pool::executor_type> setups;
    // Held by that, and while the job is removed; taken before the data plane's mutex.
    std::mutex setup;
    bool is_removed = false;  // under setup
  };
  using JobPointer = std::shared_ptr<Job>;
  class Copy;

  std::optional<IssuedSecret> secret_of(const transport::Hello& hello) override {
    return membership_.secret_of(hello.job_id, hello.epoch, hello.worker);
  }
  void admit(Candidate candidate, Done done) override;
  Result<Admitted> admit(Job& job, Candidate& candidate);
  // Takes the worker's place among the job's connections.
  Result<JobPointer> job_of(const transport::Hello& hello);
  // These REQUIRE job.setup, and not mutex_.
  Result<Admitted> connect(Job& job, Candidate& candidate);
  Result<Admitted> connect_shm(Job& job, Candidate& candidate);
  Status connect_tcp(Core& core, JobOnCore* on_core, Candidate& candidate);
  Result<transport::verbs::Introduction> connect_verbs(Job& job, Candidate& candidate);
  Result<std::shared_ptr<VerbsMemory>> verbs_memory_of(Job& job, std::uint32_t core);
  Status make(Job& job) const;
  Result<std::vector<OpenPort>> ports_by_core(
      const std::vector<std::optional<std::uint32_t>>& cpus) const;
  Offered offered() const {
    return {.windows = !ports_.empty(), .sealing = options_.encrypt_tcp, .staging = options_.tcp};
  }
  // Of parameters and state: what has come into memory with the job's first rounds; and tables.
  static std::uint64_t touched_bytes(const Job& job);
  // These two REQUIRE mutex_.
  Room room() const;
  std::uint64_t staged_beyond(const Job& job) const;
  // As reserve. REQUIRES: mutex_.
  Result<std::shared_ptr<const std::uint64_t>> count(std::uint64_t bytes, const std::string& what);
  void detach(Job& job);
  void watch_events();

  DataPlaneOptions options_;
  MembershipListener& membership_;
  const std::uint64_t start_ticks_ = ticks();
  boost::asio::io_context context_{1};
  std::string shm_socket_;
  std::vector<OpenPort> ports_;  // by core; empty: no RDMA
  std::vector<std::unique_ptr<Core>> cores_;
  // An eventfd: a core reported a loss.
  std::optional<boost::asio::posix::stream_descriptor> events_;
  std::unique_ptr<Acceptor> acceptor_;
  // Sets connections up: not on the thread that shakes hands, which nobody may keep from it.
  // Outlives the jobs, whose strands are its.
  static constexpr std::size_t kSetupThreads = 4;
  Pool setups_{kSetupThreads};
  // Of the tables below, and of who is connected and which devices a job uses. Held for a look or a
  // task of a core, never while memory is copied, pinned or unmapped.
  mutable std::mutex mutex_;
  std::map<std::uint64_t, JobPointer> jobs_;
  std::map<std::uint64_t, std::uint64_t> creating_;  // bytes of jobs that are being made
  // By job, the copies of it that are asked for, in order: a shard makes one at a time.
  std::map<std::uint64_t, std::deque<const Copy*>> copying_;
  // Bytes that snapshots and plans take while they are made.
  std::vector<std::weak_ptr<const std::uint64_t>> reserved_;
  std::thread thread_;  // runs context_
};

}  // namespace phub::server
