// The data plane of a real daemon: cores with threads of their own, their listener, the jobs'
// memory.
//
// Made by DataPlane::create. data_plane.cc has jobs, data_plane_connections.cc how workers come in,
// data_plane_counters.cc what people ask for, data_plane_copies.cc snapshots.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/acceptor.h"
#include "server/core.h"
#include "server/core_ports.h"
#include "server/data_plane.h"
#include "server/host_memory.h"
#include "server/job_memory.h"
#include "server/verbs_memory.h"

namespace phub::server {

class PinnedDataPlane final : public DataPlane, private Admission {
 public:
  PinnedDataPlane(const DataPlaneOptions& options, Membership& membership)
      : options_(options), membership_(membership) {}

  ~PinnedDataPlane() override;
  PinnedDataPlane(const PinnedDataPlane&) = delete;
  PinnedDataPlane& operator=(const PinnedDataPlane&) = delete;

  // Once, before any other call. Errors: see DataPlane::create.
  Status open();

  Status create_job(const JobShape& shape) override;
  void remove_job(std::uint64_t job_id) override;

  std::uint32_t cores() const override { return static_cast<std::uint32_t>(cores_.size()); }
  std::uint16_t tcp_port() const override { return acceptor_->tcp_port(); }
  bool encrypts_tcp() const override { return options_.encrypt_tcp; }
  std::string shm_socket() const override { return shm_socket_; }
  std::vector<CorePort> verbs_ports() const override;
  std::vector<PortStatus> port_statuses() const override {
    return statuses_of(ports_, options_.sysfs_root);
  }
  std::optional<JobCounters> job_counters(std::uint64_t job_id) const override;
  std::vector<CoreRounds> job_rounds(std::uint64_t job_id, std::size_t rounds) const override;
  Result<CopiedJob> copy_job(std::uint64_t job_id, const CopyMoment& moment) override;
  std::vector<CoreCounters> core_counters() const override;
  std::vector<DropCounter> drops() const override;

 private:
  struct Job {
    JobShape shape;
    std::map<const transport::verbs::OpenDevice*, std::shared_ptr<VerbsMemory>> verbs;
    std::shared_ptr<JobMemory> memory;
    std::vector<std::unique_ptr<Shard>> shards;  // by core
    std::vector<bool> connected;                 // [worker * cores + core]
  };

  std::optional<IssuedSecret> secret_of(const transport::Hello& hello) override {
    return membership_.secret_of(hello.job_id, hello.epoch, hello.worker);
  }
  Result<Admitted> admit(Candidate candidate) override;
  Result<transport::ShmConnection> shm_connection(Candidate& candidate, const JobMemory& memory);
  Result<transport::verbs::Introduction> connect_verbs(Job& job, Candidate& candidate);
  Status connect_tcp(Core& core, Shard* shard, Candidate& candidate);
  Result<Admitted> connect(Job& job, Candidate& candidate);
  Result<std::vector<OpenPort>> ports_by_core(
      const std::vector<std::optional<std::uint32_t>>& cpus) const;
  Result<CopiedJob> copy_alone(std::uint64_t job_id, const CopyMoment& moment);
  Offered offered() const { return {.windows = !ports_.empty(), .sealing = options_.encrypt_tcp}; }
  // These two REQUIRE mutex_.
  Room room() const;
  // Counts the memory of a snapshot as long as the result is there.
  Result<std::shared_ptr<const std::uint64_t>> count_copy(const JobShape& shape);
  void detach(Job& job);
  void watch_events();

  DataPlaneOptions options_;
  Membership& membership_;
  const std::uint64_t start_ticks_ = ticks();
  boost::asio::io_context context_{1};
  std::string shm_socket_;
  std::vector<OpenPort> ports_;  // by core; empty: no RDMA
  std::vector<std::unique_ptr<Core>> cores_;
  // An eventfd: a core reported a loss.
  std::optional<boost::asio::posix::stream_descriptor> events_;
  std::unique_ptr<Acceptor> acceptor_;
  mutable std::mutex mutex_;  // jobs_, copying_, copies_
  std::map<std::uint64_t, Job> jobs_;
  std::set<std::uint64_t> copying_;  // jobs that a copy_job copies: a shard makes one at a time
  std::vector<std::weak_ptr<const std::uint64_t>> copies_;  // bytes that snapshots take
  std::thread thread_;                                      // runs context_
};

}  // namespace phub::server
