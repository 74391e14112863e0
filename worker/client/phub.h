// libphub: exchange gradients through PHub servers.
//
//   auto client = phub::Client::connect({.servers = {"127.0.0.1:7077"},
//                                        .job = {.name = "demo", .workers = 2,
//                                                .rule = phub::RuleKind::kMean}});
//   client.value()->register_keys({{"w", 1000}});
//   client.value()->gradient<float>(0)[i] = ...;          // fill
//   client.value()->push_pull(0);                          // push, then wait
//   client.value()->parameter<float>(0)[i];                // the result
//
// A Client belongs to one thread. Its memory (gradients, parameters) lives as long as it does.
// Protocol of one round (bulk synchronous): fill a key's gradient, push it, do something else, wait
// for it, read its parameter. A push says that this worker has finished reading the key's
// parameter; from push to wait, neither of the two may be touched. An error of push or wait that
// comes of a server, a worker or the time is final for the job, and names who caused it. What a
// call refuses (kInvalidArgument, kFailedPrecondition) leaves the job as it is, and so does an
// error of add_keys or snapshot.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/connect/link_options.h"
#include "common/job/spec.h"
#include "common/memory/exported_memory.h"
#include "common/protocol/keys.h"
#include "common/rendezvous/client_security.h"
#include "common/rendezvous/peer_group.h"
#include "common/samples/ledger.h"
#include "common/steps/step_waits.h"
#include "worker/compress/compress_options.h"
#include "worker/compress/kept_back.h"

namespace phub {

namespace client {
class AddedKeys;
}

struct ClientOptions {
  std::vector<std::string> servers;  // control addresses, "host:port"; the same list at each worker
  // What all workers of the job say alike; its keys are those of register_keys. Of a job in several
  // racks `servers` are the own rack's, and the first rack has the first worker indexes. The
  // encoding is that of `compress`.
  JobSpec job = {};
  std::int32_t worker_index = -1;  // -1: the server chooses
  // The job is one that worker 0 makes or has restored: other workers wait for it before they join,
  // and a job that runs is waited for until it has ended. All this within `timeout`.
  bool joins_after_first = false;
  // auto (shm on the same host, verbs where both have RDMA on one fabric, else tcp), shm, tcp,
  // verbs
  std::string transport = "auto";
  LinkOptions links = {};
  // How this worker's pushes are encoded. Sums come back whole. Over tcp and verbs, a sparse job of
  // one rack without a quorum gets only changed parameters back. It needs rule sgd or a 16-bit
  // wire type, and no job.whole_replies.
  CompressOptions compress = {};
  std::chrono::milliseconds timeout{30'000};  // of every wait
  client::PeerListens peers = {};             // where this worker listens for the others
  ClientSecurity security = {};
  // From any thread: what waits, and what waits from then on, ends soon with kAborted, and the
  // client is to be destroyed. A connection to a server that does not answer takes its time.
  std::stop_token stop = {};
  std::stop_token stop_joining = {};  // the same, while register_keys and add_keys wait for others
};

// Where keys are in an array of all of them, in the wire type.
struct ArrayLayout {
  std::vector<std::size_t> offsets;  // bytes, by key
  std::size_t bytes = 0;             // of the whole array
};

struct ClientStatistics {
  std::uint64_t bytes_pushed = 0;  // payload; over shm it is not moved
  std::uint64_t bytes_received = 0;
  std::uint64_t rounds = 0;   // pushes of key 0
  double wait_seconds = 0.0;  // time spent inside wait
};

class Client {
 public:
  // Checks the options; the job is joined by register_keys. The message names the option.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options);

  ~Client();  // leaves the job
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Joins the job at every server, agrees on the plan, connects the data plane and waits for all
  // workers, each step within options.timeout; errors name the server or who is missing. Keys come
  // in forward order: the reply of an earlier key is sent first. Called once.
  Status register_keys(const std::vector<KeySpec>& keys);

  // Adds keys while the job runs; their ids follow those that are there. Every worker calls it with
  // the same list, in the same order of calls, and it waits for them, within options.timeout; what
  // is under way for other keys goes on. Each set of added keys is a job of its own at the servers,
  // named after this one ("JOB+1"), with the same options; it fails with this one. With a rule that
  // has parameters, `initialise` follows; from then on there are no snapshots. Errors leave the
  // keys that are there as they are; after one of a server's nothing can be added any more. If
  // the lists differ, the error at every worker names the key. If this worker refuses its own list,
  // the others get an error only after options.timeout.
  // kFailedPrecondition: an option that added keys cannot have (clip_norm, rounds.quorum, racks,
  // push_from, a nonce); kResourceExhausted: 32 sets are there; kDeadlineExceeded or kAborted: who
  // did not call. REQUIRES: register_keys succeeded.
  Status add_keys(const std::vector<KeySpec>& keys);

  // The key's gradient and parameter in the wire type: `elements` elements, contiguous.
  std::span<std::byte> gradient_bytes(KeyId key);
  std::span<const std::byte> parameter_bytes(KeyId key) const;
  template <typename T>
  std::span<T> gradient(KeyId key) {
    const auto bytes = gradient_bytes(key);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> parameter(KeyId key) const {
    const auto bytes = parameter_bytes(key);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // How gradient_bytes' array is laid out, of the keys of register_keys. REQUIRES: it succeeded.
  ArrayLayout layout() const;

  // From now on push sends the gradients in `gpu`, an array with the layout of layout(). RDMA
  // adapters read it directly, without a CPU. Write a key's gradient before its push, and do not
  // write it again before its wait. initialise still sends gradient_bytes. Returns how the adapters
  // read it, in words. Errors change nothing: kInvalidArgument for an array that is
  // too short; kFailedPrecondition says which server or adapter it is refused by, with the cure.
  // REQUIRES: register_keys; every push has been waited for.
  Result<std::string> push_from(ExportedMemoryPointer gpu);

  // Starts the exchange of one key. With options.compress, push overwrites its gradient.
  // REQUIRES: the key has been waited for since its last push.
  Status push(KeyId key);

  // Returns when the key's new parameters are there, or with the reason why they never will be.
  Status wait(KeyId key);
  Status wait_all();
  // The same in slices, for who has signals to look at meanwhile; nothing: all keys. Returns within
  // `slice` whether it is there. The next call for the same key goes on with this wait, so that
  // options.timeout bounds all of its slices together.
  Result<bool> wait_for(std::optional<KeyId> key, std::chrono::milliseconds slice);
  Status push_pull(KeyId key) {
    PHUB_RETURN_IF_ERROR(push(key));
    return wait(key);
  }

  // In a job whose loss_scale is kVoted, with options.compress: the scale of the gradients that are
  // pushed from now on, which the residual follows. Needed before the first push of each round
  // whose scale is not that of the last vote. REQUIRES: no key of the round has been pushed.
  Status set_loss_scale(float scale);

  // Ends a round in a job whose loss_scale is kVoted, where every worker does so after its last
  // push of the round: updates wait for it, and if any worker's vote says overflow, none is made.
  // Not for initialise. REQUIRES: each key has been pushed since the last vote; the same scale as
  // the other workers' (who has another is dropped).
  Status vote(const Vote& vote);

  // Whether the servers left out the key's last update, or a part of a chunk that it shares: a vote
  // said overflow, or the sum of the gradients was not finite. The same at every worker. REQUIRES:
  // it was waited for.
  bool was_skipped(KeyId key) const;

  // With options.compress, the residual of the key's gradients, for a checkpoint. Write it only
  // before the key's first push of gradients. In a job of all workers in every round it also has
  // what was pushed for an update that was left out; with a voted loss scale it is then as before
  // the push. REQUIRES: register_keys succeeded, and the key was waited for. The memory lives as
  // long as the client.
  KeptBack kept_back(KeyId key);

  // For rules with parameters (all but sum and mean): the first round of every key carries
  // initial parameters instead of gradients, and everyone receives worker 0's. Fill every
  // gradient with the initial values, then call this once before the first push. Of a job that was
  // restored from a snapshot everyone receives what the snapshot holds instead. After add_keys once
  // more: of the added keys alone.
  Status initialise();

  // Rounds of gradients that a restored job has behind it: the next one is the first that is not in
  // the snapshot. 0: a new job. REQUIRES: register_keys succeeded.
  std::uint64_t rounds_before() const;

  // What a restored job has used of its samples, if the snapshot says so. REQUIRES: as
  // rounds_before.
  SampleLedger samples_before() const;
  // Says what the job uses of its samples, so that snapshots of the servers have it. Every worker
  // calls it with the same, before the first push of gradients that it is about. Racks are not
  // compared with each other. Errors name what another worker of the rack says otherwise.
  Status note_samples(const SampleLedger& ledger);

  // Has every server of every rack keep the job, parameters and optimizer state, as they are after
  // the last round that was waited for. Returns "FILE at ADDRESS" of each server, for `phubctl
  // restore`: all of them are to be restored. Needs servers with a state folder, a rule with
  // parameters, and no added keys. REQUIRES: initialise, and every push has been waited for.
  Result<std::vector<std::string>> snapshot();
  // Whether snapshot could succeed at all, known since register_keys. Errors: kFailedPrecondition
  // names a server that takes none, and the cure. REQUIRES: register_keys succeeded.
  Status check_snapshots() const;

  // Says what the steps since the last call took: how long this worker waited for samples, and how
  // long in push and wait. Heartbeats tell the servers of the last 15 to 30 s of steps, and
  // `phubctl job explain` names who waits for what. Errors change nothing: kInvalidArgument names
  // the field (parts that are longer than the whole). REQUIRES: register_keys succeeded.
  Status report_steps(const StepWaits& times);

  // Sets the hyper-parameters of the rounds whose pushes follow. Only worker 0's count; with
  // job.rack_local, in each rack those of its first worker. A gradient_scale of 0 or 1 / workers is
  // a mean, with a quorum over the pushes of each round, with job.rack_local over the rack's
  // workers. Any other one multiplies the sum. With a quorum, a round without worker 0 uses the
  // last hyper-parameters that worker 0 set. Until worker 0 has set or pushed any, the round uses
  // another worker's. A dropped push of worker 0 changes later rounds only. After worker 0 has
  // left, the lowest remaining worker's count, once it has set some. REQUIRES: every push has been
  // waited for.
  Status set_hyper(const Hyper& hyper);
  // Sets the images or tokens in each of this worker's pushes that follow, for a job whose rounds
  // weigh pushes by samples. 1 until it is called. From kSamplesMin to kSamplesMax. REQUIRES: as
  // set_hyper.
  Status set_samples(float samples);

  // A planned end begins when a worker or a server is asked to stop. All workers stop after the
  // same step, so that worker 0 can write a checkpoint of it. A training loop asks is_last after
  // each step.

  // Asks all workers to stop, and tells the servers so at once. `reason` is told to all. Any
  // thread. REQUIRES: register_keys succeeded.
  Status end(const std::string& reason);
  // Why the job is to end, as planned; empty: it is not, as far as is known here. Known within a
  // second. Any thread. REQUIRES: register_keys succeeded.
  std::string ending() const;
  // Whether step `steps` (the first is 1), whose pushes this worker has just made, is the last one.
  // Worker 0 chooses it, step `steps + ahead`, and waits here until all others know it, a second or
  // two. It stops at once when the job has ended or a worker has left, and after options.timeout.
  // `ahead`: how many further steps the others may ask about while worker 0 waits. It is 2 where
  // each step needs every worker's push of the step before. With job.rack_local the last step ends
  // with an exchange of racks, at most `ahead` + 2 * job.rack_local.steps later. Racks that do not
  // wait for each other each end after a step that their first worker chooses. With a quorum or
  // one worker nobody waits: each worker stops at once. If nobody calls is_last, the job goes on,
  // and a server that stops ends it at its deadline. REQUIRES: register_keys succeeded.
  Result<bool> is_last(std::uint64_t steps, std::uint32_t ahead = 2);
  // The last step, once it is agreed. Nothing: not yet, or the job has a quorum or one worker.
  std::optional<std::uint64_t> last_step() const;

  // The workers of this rack that listen for each other, with options.peers. The first server
  // names them, and makes the key. REQUIRES: register_keys succeeded.
  client::PeerGroup peers() const;

  std::uint32_t worker_index() const;
  std::uint32_t workers() const;
  // Those that the job goes on without: lost ones of a job with a quorum or with racks that go on.
  // In order; of a lost rack all. Known within a second. Any thread. REQUIRES: register_keys
  // succeeded.
  std::vector<std::uint32_t> workers_lost() const;
  std::string_view transport() const;  // "shm", "tcp" or "verbs"; "mixed"
  // Why, server by server, in words.
  std::string_view transport_reason() const;
  ClientStatistics statistics() const;

 private:
  friend class client::AddedKeys;
  struct State;
  explicit Client(const ClientOptions& options);

  std::unique_ptr<State> state_;
};

}  // namespace phub
