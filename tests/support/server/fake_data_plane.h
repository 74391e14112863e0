// A DataPlane without threads, sockets or memory, for tests of the control plane: it records what
// it was asked to do, and the test plays the workers' connections through the MembershipListener.
//
// Any thread may call it, as with the real one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/plane/data_plane.h"

namespace phub::testing {

class FakeDataPlane : public server::DataPlane {
 public:
  explicit FakeDataPlane(std::uint32_t cores) : cores_(cores) {}

  // What the next create_job returns.
  void refuse_next(Status status) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(status);
  }

  // Called within the call of that name, without a lock.
  std::function<void()> on_create = [] {};
  std::function<void()> on_remove = [] {};
  std::function<void()> on_reserve = [] {};
  std::function<void(const server::RackTarget&)> on_connect_rack = [](const auto&) {};
  std::map<std::uint32_t, std::uint32_t> known_cores;  // by rack

  // What it returns; set before the first call.
  std::vector<server::CorePort> ports;  // by core
  std::vector<server::PortStatus> statuses;
  server::StagedBeyond beyond;
  std::vector<server::RackTraffic> racks;            // of every job
  std::vector<server::WorkerValues> values;          // the same; may be set between calls
  std::vector<server::WorkerCorruption> corruption;  // the same
  bool encrypts = false;
  std::uint64_t room_bytes = UINT64_MAX;
  std::vector<std::uint32_t> dropped;  // workers, by drop_worker

  std::optional<server::JobLayout> layout(std::uint64_t job_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = layouts_.find(job_id);
    return found == layouts_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::uint64_t> removed() const {
    const std::lock_guard lock(mutex_);
    return removed_;
  }

  Status know_rack(std::uint64_t, std::uint32_t rack, std::uint32_t cores) override {
    known_cores[rack] = cores;
    return {};
  }
  Status connect_rack(const server::RackTarget& target) override {
    on_connect_rack(target);
    return {};
  }
  void drop_worker(std::uint64_t /*job_id*/, std::uint32_t worker) override {
    dropped.push_back(worker);
  }
  Status reaches(const client::RdmaPort&, std::uint32_t) const override { return {}; }
  Status create_job(const server::JobLayout& layout) override {
    on_create();
    const std::lock_guard lock(mutex_);
    if (!refusal_.ok()) return std::exchange(refusal_, Status());
    layouts_[layout.job_id] = layout;
    return {};
  }
  Result<std::shared_ptr<const void>> reserve(std::uint64_t bytes,
                                              const std::string& what) override {
    on_reserve();
    if (bytes <= room_bytes) return std::shared_ptr<const void>();
    return Status(Code::kResourceExhausted, what + " has no room");
  }
  std::unique_ptr<server::CopyUnderWay> copy_job(std::uint64_t job_id,
                                                 const server::CopyMoment& /*moment*/) override {
    struct NoCopy final : server::CopyUnderWay {
      explicit NoCopy(std::uint64_t id) : job_id(id) {}
      Result<std::optional<server::CopiedJob>> step() override {
        return Status(Code::kNotFound, "no job " + std::to_string(job_id));
      }
      std::chrono::microseconds rest() const override { return {}; }
      const std::uint64_t job_id;
    };
    return std::make_unique<NoCopy>(job_id);
  }
  // What it returns for every job; set before the first call.
  std::vector<server::CoreRounds> rounds;

  std::vector<server::CoreRounds> job_rounds(std::uint64_t /*job_id*/,
                                             std::size_t /*rounds*/) const override {
    return rounds;
  }
  void remove_job(std::uint64_t job_id) override {
    on_remove();
    const std::lock_guard lock(mutex_);
    layouts_.erase(job_id);
    removed_.push_back(job_id);
  }

  std::uint32_t cores() const override { return cores_; }
  std::uint16_t tcp_port() const override { return 4242; }
  bool encrypts_tcp() const override { return encrypts; }
  std::string shm_socket() const override { return "phub-fake"; }
  std::vector<server::CorePort> verbs_ports() const override { return ports; }
  std::vector<server::PortStatus> port_statuses() const override { return statuses; }
  server::StagedBeyond staged_beyond() const override { return beyond; }
  std::optional<server::JobCounters> job_counters(std::uint64_t job_id) const override {
    if (!layout(job_id)) return std::nullopt;
    server::LatencyCounts latencies;
    latencies.counts[0] = 1;
    latencies.counts[7] = 3;
    latencies.counts[server::LatencyCounts::kBounds] = 2;
    latencies.sum_nanoseconds = 10'500'000'000;
    return server::JobCounters{.chunks = 4,
                               .chunks_completed = 20,
                               .bytes_received = 1000,
                               .bytes_sent = 2000,
                               .memory_bytes = 300,
                               .staging_bytes = 30,
                               .queued_pushes = 3,
                               .push_to_reply = latencies,
                               .workers = {{.pushes = 8}, {.pushes = 12, .bytes_received = 600}},
                               .racks = racks,
                               .values = values,
                               .corruption = corruption};
  }
  std::vector<server::CoreCounters> core_counters() const override {
    server::CoreCounters core{.cpu = 1, .chunks_completed = 7, .sleeps = 3};
    const std::lock_guard lock(mutex_);
    for (const auto& [job_id, layout] : layouts_) {
      core.jobs.push_back(
          {.job_id = job_id, .busy_nanoseconds = 1'500'000'000, .queued_pushes = 3});
    }
    return {cores_, core};
  }
  std::vector<server::DropCounter> drops() const override {
    return {{.cause = "wrong secret", .count = 2}};
  }

 private:
  const std::uint32_t cores_;
  mutable std::mutex mutex_;
  Status refusal_;
  std::map<std::uint64_t, server::JobLayout> layouts_;
  std::vector<std::uint64_t> removed_;
};

}  // namespace phub::testing
