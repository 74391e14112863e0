// The worker's end of the control plane: joins one server's job, waits for the others, heartbeats.
//
// A Rendezvous speaks for one worker at one server; a client holds one for each server. join,
// ready and start are called in this order by one thread. After join, heartbeat may run in another
// thread, also while ready or start wait, and should do so every JoinInfo::heartbeat_interval: a
// worker that is silent for the server's heartbeat deadline is lost. Call leave BEFORE the data
// connections are closed; a connection that closes first ends the job for everybody.
// Every call has a deadline; errors name the server, and the worker that caused them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "common/protocol/keys.h"
#include "common/rendezvous/client_security.h"
#include "common/transport/verbs/device/device.h"

namespace phub::client {

using Secret = std::array<std::uint8_t, 32>;

// What the workers of a job must agree on, and which of them this one is.
struct JobDescription {
  std::string name = "default";
  std::uint32_t workers = 1;
  std::int32_t worker_index = -1;  // -1: the server chooses
  DataType wire_type = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  Hyper hyper = {.gradient_scale = 0.0F};  // gradient_scale 0: 1 / workers
  LarsOptions lars = {};
  LossScale loss_scale = {};
  bool deterministic = true;
  std::uint32_t chunk_bytes = 32 * 1024;
  std::vector<KeySpec> keys = {};  // in forward order
};

// How a NIC of the server is found.
struct RdmaPort {
  std::string device;
  transport::verbs::LinkLayer link_layer = transport::verbs::LinkLayer::kEthernet;
  transport::verbs::Gid gid;
};

// What a server replies to a join.
struct JoinInfo {
  std::uint64_t job_id = 0;  // of this server; other servers give the same job other ids
  std::uint32_t epoch = 0;
  std::uint32_t worker_index = 0;
  Secret secret{};  // authenticates this worker's data connections to this server
  std::uint32_t cores = 0;
  std::string host;            // of the data port: the control address's, without brackets
  std::uint16_t tcp_port = 0;  // 0: the server offers no tcp
  std::string shm_socket;      // abstract name without the leading NUL; empty: no shm
  bool same_host = false;      // same boot id: shm is possible
  std::vector<RdmaPort> rdma;  // by core: the NIC that serves it; empty: no verbs
  bool encrypts_data = false;  // the server's tcp streams are encrypted
  std::vector<std::uint64_t> core_load_bytes;  // by core: what other jobs have there, for the plan
  std::chrono::milliseconds heartbeat_interval{0};
};

struct Beat {
  bool running = false;             // false: the job has ended or failed, or the server forgot it
  std::string reason;               // why it is not running; names the worker that was lost
  std::vector<std::uint32_t> left;  // workers that have left; a wait for them never ends
};

class Rendezvous {
 public:
  // `address` is the server's control address, "host:port" or "[::1]:port". Connects at the first
  // call. `server` is its place in the job's list of servers. Errors: kInvalidArgument for an
  // address that does not parse, for files of `security` that are wrong.
  static Result<std::unique_ptr<Rendezvous>> create(const std::string& address,
                                                    const ClientSecurity& security = {},
                                                    std::size_t server = 0);

  virtual ~Rendezvous() = default;  // does not leave
  Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Becomes a member. Keeps trying until `timeout` while no server replies. Called once.
  // Errors: kUnauthenticated (no credentials that are accepted), kUnavailable (no server replies;
  // the server is draining), kAlreadyExists (index taken, job full), kInvalidArgument (a field that
  // differs from the job's, with both values).
  virtual Result<JoinInfo> join(const JobDescription& job, std::chrono::milliseconds timeout) = 0;

  // Tells the whole topology and the hash of the plan made from it; the server then holds the
  // job's memory and accepts this worker's data connections. `cores_per_server` has one entry for
  // each server, `server_index` says which of them this server is; `core_load_bytes` is what their
  // joins said, one after another (empty: nothing anywhere).
  // Errors: kFailedPrecondition (plan or topology differ, both are printed), kResourceExhausted.
  virtual Status ready(const std::vector<std::uint32_t>& cores_per_server,
                       const std::vector<std::uint64_t>& core_load_bytes,
                       std::uint32_t server_index, std::uint64_t plan_hash,
                       std::chrono::milliseconds timeout) = 0;

  // Returns when every worker is connected to every core of this server. `transport_reason` says
  // why this one came over the transport that it did; the server shows it to people.
  // Errors: kDeadlineExceeded names the missing workers; kAborted says why the job failed.
  virtual Status start(std::chrono::milliseconds timeout, const std::string& transport_reason) = 0;

  // Rounds of gradients that a restored job has behind it. REQUIRES: start succeeded.
  virtual std::uint64_t rounds_before() const = 0;

  // An error means that the server did not reply in time, not that the job has ended.
  virtual Result<Beat> heartbeat(std::chrono::milliseconds timeout) = 0;

  // Has the server keep the job as it is when `round` (the first one is 1) is over; returns what
  // `phubctl restore` is to be told. Errors: kFailedPrecondition (the server keeps no state),
  // kResourceExhausted.
  virtual Result<std::string> snapshot(std::uint64_t round, std::chrono::milliseconds timeout) = 0;

  virtual Status leave(std::chrono::milliseconds timeout) = 0;

  virtual const std::string& address() const = 0;
};

// A worker's membership of its job at every server.
struct Membership {
  std::vector<std::unique_ptr<Rendezvous>> servers;  // in the order of the addresses
  std::vector<JoinInfo> joined;                      // entry s: what server s answered
};

// Joins server 0 first, which gives the worker its index, then the others with that index.
// Everything happens within `timeout`; after an error the servers joined so far are left again.
Result<Membership> join_all(const std::vector<std::string>& addresses, const JobDescription& job,
                            std::chrono::milliseconds timeout, const ClientSecurity& security = {});

// Rendezvous::snapshot of all servers at once, since the other workers wait meanwhile: "FILE at
// ADDRESS" of each, in their order. The first error is returned when all have answered.
Result<std::vector<std::string>> snapshot_all(const Membership& membership, std::uint64_t round,
                                              std::chrono::milliseconds timeout);

}  // namespace phub::client
