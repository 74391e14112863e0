// The data plane of a daemon: pinned cores, their endpoints, the listener that lets authenticated
// workers in, and the memory of the jobs.
//
// Created and called by control threads only; all calls are thread-safe. It calls back into
// MembershipListener from its own listener and watcher threads, never from a pinned core.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "common/base/waiting.h"
#include "common/plan/plan.h"
#include "common/rendezvous/join_info.h"
#include "common/transport/transport.h"
#include "common/transport/verbs/device/counters.h"
#include "common/transport/verbs/device/device.h"
#include "server/job/copy.h"
#include "server/job/counters.h"
#include "server/job/layout.h"
#include "server/job/timing.h"

namespace phub::server {

using Secret = std::array<std::uint8_t, 32>;

struct IssuedSecret {
  Secret secret{};
  bool has_expired = false;
  bool operator==(const IssuedSecret&) const = default;
};

// What the data plane asks the control plane. Must not call back into DataPlane from within.
class MembershipListener {
 public:
  virtual ~MembershipListener() = default;
  // The secret that was issued to a live member, or nothing.
  virtual std::optional<IssuedSecret> secret_of(std::uint64_t job_id, std::uint32_t epoch,
                                                std::uint32_t worker) = 0;
  // A worker's connection to one core is up.
  virtual void on_connected(std::uint64_t job_id, std::uint32_t worker, std::uint32_t core,
                            std::string_view transport) = 0;
  // A worker's connection was lost or refused on the way. Once for each connection.
  virtual void on_lost(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) = 0;
  // The same of a job with a quorum, where the core goes on without the worker: drop_worker is to
  // be called for the others, but not from within.
  virtual void on_left_behind(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) {
    on_lost(job_id, worker, reason);
  }
};

// How a core's NIC is found from other hosts.
struct CorePort {
  std::string device;
  std::uint8_t port = 1;
  transport::verbs::LinkLayer link_layer = transport::verbs::LinkLayer::kEthernet;
  transport::verbs::Gid gid;
};

// A port that serves cores, as it is now.
struct PortStatus {
  CorePort identity;
  int numa_node = -1;      // -1: unknown
  std::string state = {};  // "active", "down", ...
  std::uint32_t mtu_bytes = 0;
  std::vector<std::uint32_t> cores = {};
  std::vector<transport::verbs::PortCounter> counters = {};  // since it came up
};

enum class OfferVerbs { kNo, kIfPossible, kYes };

struct DataPlaneOptions {
  std::uint32_t cores = 0;          // 0: half of the CPUs, at least one
  std::vector<std::uint32_t> cpus;  // empty: chosen by topology
  bool allow_oversubscription = false;
  Waiting waiting;
  bool shm = true;
  bool tcp = true;
  std::string tcp_address = "127.0.0.1:0";
  std::string tcp_congestion_control = "auto";
  std::uint32_t tcp_buffer_kib = 0;            // CongestionControl::bound_buffers
  transport::EndpointFront tcp_front = {};     // of each core's
  bool encrypt_tcp = false;                    // then verbs, which is not, is refused
  OfferVerbs verbs = OfferVerbs::kIfPossible;  // set up over tcp's port: needs tcp too
  std::vector<std::string> verbs_devices;      // "mlx5_0" or "mlx5_0:2"; empty: all
  std::optional<std::uint32_t> verbs_gid_index;
  std::string sysfs_root = "/sys";  // where NUMA nodes and counters of RDMA devices are read
  std::uint32_t connections_per_core = 256;
  std::uint64_t memory_limit_bytes = 0;  // 0: none
};

// The cores of this server's place in another rack of a job that have chunks of a core here: the
// same one, or with other cores there (know_rack) several.
struct RackTarget {
  std::uint64_t job_id = 0;  // here
  std::uint32_t rack = 0;
  std::uint32_t core = 0;                    // here
  const client::JoinInfo* joined = nullptr;  // there: outlives the call
  std::string transport = "tcp";             // tcp, shm, verbs
  std::chrono::milliseconds timeout{0};
};

// Which moment of a job is to be copied, and how long the caller waits for it.
struct CopyMoment {
  std::uint64_t round = 0;  // when it is over on every chunk; 0: as soon as possible
  std::chrono::milliseconds timeout{0};
  // Asked while the copy is made: true ends it, for nobody waits for it any more.
  std::function<bool()> is_cancelled = [] { return false; };
};

// A copy of a running job, and what it cost the job.
struct CopiedJob {
  std::shared_ptr<const JobCopy> copy;
  JobLayout layout;
  double pause_seconds = 0;  // the time that the busiest core spent on copying
  std::shared_ptr<const std::uint64_t> counted_bytes = nullptr;  // of memory, while it is there
};

// A copy that is being made, in steps; between them the caller needs no thread. Gone before it is
// whole: given up. Used by one thread at a time; the data plane outlives it.
class CopyUnderWay {
 public:
  virtual ~CopyUnderWay() = default;
  CopyUnderWay() = default;
  CopyUnderWay(const CopyUnderWay&) = delete;
  CopyUnderWay& operator=(const CopyUnderWay&) = delete;

  // Nothing: it is not whole yet, and the next step is due after rest(). Errors: kNotFound;
  // kFailedPrecondition: the rule has no parameters, or the round is over already;
  // kDeadlineExceeded: the workers did not finish the round; kAborted: the caller went away;
  // kResourceExhausted with the figures. Not called again after an error or the copy.
  virtual Result<std::optional<CopiedJob>> step() = 0;
  virtual std::chrono::microseconds rest() const = 0;
};

class DataPlane {
 public:
  // Errors: kResourceExhausted (more cores than CPUs), kInvalidArgument (address), kAlreadyExists
  // (port in use), each with field and cure.
  static Result<std::unique_ptr<DataPlane>> create(const DataPlaneOptions& options,
                                                   MembershipListener& membership);
  virtual ~DataPlane() = default;

  // Allocates and attaches a job to the cores. Errors: kResourceExhausted with the figures.
  virtual Status create_job(const JobLayout& layout) = 0;

  // Counts memory that is about to be taken, beside that of jobs, until the result is gone; null:
  // it needs none. `what`: that wants it, for the message. Errors: kResourceExhausted with the
  // figures.
  virtual Result<std::shared_ptr<const void>> reserve(std::uint64_t /*bytes*/,
                                                      const std::string& /*what*/) {
    return std::shared_ptr<const void>();
  }

  // Tells how many cores the server of this one's place has in another rack of the job, which finds
  // out where the chunks are there. Before its cores and this server's meet; any number of times,
  // and blocks for a time that grows with the chunks. Errors: kNotFound; kFailedPrecondition, an
  // earlier call said another number.
  virtual Status know_rack(std::uint64_t job_id, std::uint32_t rack, std::uint32_t cores) = 0;
  // Connects a core with another rack's, to which it will push sums; blocks. on_lost tells by the
  // rack's seat. Errors: kNotFound; of the transport.
  virtual Status connect_rack(const RackTarget& target) = 0;
  // Whether this core's NIC reaches that of another server. Errors: kNotFound with the reason.
  virtual Status reaches(const client::RdmaPort& peer, std::uint32_t core) const = 0;

  // Disconnects one worker of a job with a quorum, which goes on without it. Nothing happens where
  // it has no connection.
  virtual void drop_worker(std::uint64_t /*job_id*/, std::uint32_t /*worker*/) {}

  // Disconnects the job's workers and frees its memory; returns when that is done. Unknown jobs
  // are ignored.
  virtual void remove_job(std::uint64_t job_id) = 0;

  virtual std::uint32_t cores() const = 0;
  virtual std::uint16_t tcp_port() const = 0;  // 0: not offered
  virtual bool encrypts_tcp() const { return false; }
  virtual std::string shm_socket() const = 0;             // abstract name; empty: not offered
  virtual std::vector<CorePort> verbs_ports() const = 0;  // by core; empty: not offered
  // One for each port in use, in the order of their first cores. Asks the devices and reads their
  // counters, for milliseconds: where people ask, never on a core.
  virtual std::vector<PortStatus> port_statuses() const = 0;
  // Of jobs that have more of tcp's pushes in memory than was admitted (server/job/footprint.h).
  virtual StagedBeyond staged_beyond() const { return {}; }
  virtual std::optional<JobCounters> job_counters(std::uint64_t job_id) const = 0;
  // Copies the job's parameters and state as they are at a moment, while the rounds go on. Nothing
  // is done before the first step.
  virtual std::unique_ptr<CopyUnderWay> copy_job(std::uint64_t job_id,
                                                 const CopyMoment& moment) = 0;
  // The last rounds of a job here, at most `rounds` (and what RoundLog keeps), for each core that
  // has chunks of it. Copied by the cores between two rounds.
  virtual std::vector<CoreRounds> job_rounds(std::uint64_t job_id, std::size_t rounds) const = 0;
  virtual std::vector<CoreCounters> core_counters() const = 0;
  virtual std::vector<DropCounter> drops() const = 0;
};

}  // namespace phub::server
