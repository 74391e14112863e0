// How the trainer sees the exchange: gradients go out key by key, parameters come back.
//
// Gradients and parameters are fp32 here, whatever travels. Belongs to one thread. The rounds are
// bulk synchronous: fill gradient(key), push(key); before parameter(key) is read next, wait(key).
// Between push and wait neither is touched. Errors are final.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/rule.h"
#include "common/base/status.h"
#include "worker/client/phub.h"
#include "worker/train/exchange/training_end.h"

namespace phub::train {

struct ExchangeStatistics {
  std::uint64_t bytes_pushed = 0;
  std::uint64_t bytes_received = 0;
};

// Where the optimizer's state (momentum, means) lives.
enum class StateAt : std::uint8_t { kNowhere, kHere, kServers };

// What is known of an exchange once it is there, and does not change.
struct ExchangeFacts {
  std::uint32_t worker_index = 0;
  bool may_lead = false;  // it may come to lead, though it is not worker 0
  std::uint32_t workers = 1;
  std::vector<RackSpec> racks = {};  // of the job; none: it has one
  std::string transport = "local";   // "shm", "tcp", "verbs", "mixed", "local"
  std::string transport_reason = "there is no choice";
  DataType wire_type = DataType::kFloat32;
  StateAt state_at = StateAt::kNowhere;
  RuleKind rule = RuleKind::kSum;
  // Steps whose gradients are in what initialise brings: of a job restored from a snapshot.
  std::uint64_t steps_before = 0;
  SampleLedger samples_before = {};  // what these steps used, if it is known
  client::PeerGroup peers = {};      // workers that listen for each other, where this one does
};

class GradientExchange : public TrainingEnd {
 public:
  explicit GradientExchange(ExchangeFacts facts) : facts_(std::move(facts)) {}

  const ExchangeFacts& facts() const { return facts_; }

  virtual std::span<float> gradient(KeyId key) = 0;
  virtual std::span<const float> parameter(KeyId key) const = 0;

  // The same as they travel (facts().wire_type), for executors that read and write that themselves.
  // use_wire_arrays says so, before the first push of gradients: then what is pushed is
  // wire_gradient(key), and gradient(key) is for initial parameters only.
  virtual std::span<std::byte> wire_gradient(KeyId key) {
    return std::as_writable_bytes(gradient(key));
  }
  virtual std::span<const std::byte> wire_parameter(KeyId key) const {
    return std::as_bytes(parameter(key));
  }
  virtual void use_wire_arrays() {}

  // Instead of wire_gradient, what is pushed is in a GPU's memory, which network adapters read:
  // Client::layout and Client::push_from. After use_wire_arrays; then pushes are push_checked. The
  // layout's error says why push_from need not be asked.
  virtual Result<ArrayLayout> gpu_layout() const {
    return Status(Code::kFailedPrecondition, "gradients do not leave this process");
  }
  virtual Result<std::string> push_from(const ExportedMemoryPointer& /*gpu*/) {
    return Status(Code::kFailedPrecondition, "gradients do not leave this process");
  }

  // Takes the initial parameters from the gradient arrays; worker 0's become everyone's. Called
  // once, before the first push. On return the parameters are there.
  virtual Status initialise() = 0;

  // The optimizer's. REQUIRES: it lives here, and the key is not under way; array <
  // state_arrays(facts().rule).
  virtual std::span<float> state(KeyId /*key*/, unsigned /*array*/ = 0) { return {}; }
  // Steps that updated it, and with them those that it goes on from.
  virtual std::uint64_t updates() const { return 0; }
  virtual void resume_updates(std::uint64_t /*updates*/) {}

  // What the worker keeps back of the key's gradients, for a checkpoint: Client::kept_back.
  virtual KeptBack kept_back(KeyId /*key*/) { return {}; }

  // The parameters, to be written. REQUIRES: they live in this process, and the key is not under
  // way.
  virtual std::span<float> own_parameter(KeyId /*key*/) { return {}; }

  // The steps that the trainer will make, [first, end). Called once, before the first push.
  virtual void set_steps(std::uint64_t /*first*/, std::uint64_t /*end*/) {}

  // What the training uses of its samples, for snapshots of servers. Called once, before the first
  // push of gradients.
  virtual Status note_samples(const SampleLedger& /*ledger*/) { return {}; }

  // Tells the servers, if there are any, what the steps since the last call took.
  virtual Status report_steps(const StepWaits& /*times*/) { return {}; }

  // Of the pushes that follow, in every worker's name; only worker 0's count.
  virtual Status set_hyper(const Hyper& hyper) = 0;

  // Tells the loss scale of the gradients that follow, before the first push of a step.
  virtual Status set_loss_scale(float /*loss_scale*/) { return {}; }

  virtual Status push(KeyId key) = 0;
  // The same; whoever wrote the gradient, as it travels, knows whether all of it is finite.
  virtual Status push_checked(KeyId key, bool /*finite*/) { return push(key); }
  // Returns at once for a key that is not under way.
  virtual Status wait(KeyId key) = 0;

  // After the last push of a step. `loss_scale`: the pushed gradients are so many times too large.
  // Where the job votes, the servers are told whether they were all finite as they travelled.
  virtual Status end_step(float /*loss_scale*/) { return {}; }
  // Whether the servers left out the last step, or a part of it; the same at every worker.
  // REQUIRES: every key has been waited for.
  virtual bool step_was_skipped() const { return false; }

  // Has the servers keep the job as it is after the last step; what `phubctl restore` is to be
  // told, server by server. REQUIRES: every key has been waited for.
  virtual Result<std::vector<std::string>> snapshot() { return check_snapshots(); }

  // Whether snapshot could succeed at all, before training begins. Error: why not, and the cure.
  virtual Status check_snapshots() {
    return {Code::kFailedPrecondition, "this exchange has no servers that could take one"};
  }

  // Workers that the job goes on without, in order.
  virtual std::vector<std::uint32_t> workers_lost() const { return {}; }

  virtual ExchangeStatistics statistics() const { return {}; }

 private:
  ExchangeFacts facts_;
};

// Whether this worker evaluates, saves and prints: it is the lowest one that was not lost.
inline bool leads(const GradientExchange& exchange) {
  std::uint32_t lowest = 0;
  for (const std::uint32_t lost : exchange.workers_lost()) lowest += lost == lowest ? 1 : 0;
  return exchange.facts().worker_index == lowest;
}

// Makes the exchange once the keys are known.
using ExchangeFactory =
    std::function<Result<std::unique_ptr<GradientExchange>>(const std::vector<KeySpec>& keys)>;

// One process alone, with the servers' own arithmetic (kernels::update): pushes update at once, or,
// with a voted loss scale or with clipping, the end of the step does.
std::unique_ptr<GradientExchange> make_local_exchange(const std::vector<KeySpec>& keys,
                                                      RuleKind rule, const LarsOptions& lars = {},
                                                      const LossScale& loss_scale = {},
                                                      const AdaptiveOptions& adaptive = {},
                                                      float clip_norm = 0.0F);

// Through PHub servers: joins the job and waits for its workers. With a 16-bit wire type gradients
// are rounded on push, and parameters, also the initial ones, come back rounded.
Result<std::unique_ptr<GradientExchange>> make_remote_exchange(const ClientOptions& options,
                                                               const std::vector<KeySpec>& keys);

}  // namespace phub::train
