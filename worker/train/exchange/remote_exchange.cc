#include <optional>

#include "common/base/check.h"
#include "kernels/reduce.h"
#include "worker/train/exchange/gradient_exchange.h"
#include "worker/train/exchange/key_arrays.h"

namespace phub::train {
namespace {

// fp32 copies of what travels in 16 bits.
struct Shadow {
  explicit Shadow(const std::vector<KeySpec>& keys) : gradients(keys), parameters(keys) {}
  KeyArrays gradients, parameters;
};

// Worker 0 is missing only if its rack was lost. The other rack's first worker then leads, or, with
// a quorum of its workers, another one.
bool may_lead(const Client& client, const JobSpec& job) {
  if (!job.rack_local.goes_on()) return false;
  std::uint32_t first = 0;
  for (const RackSpec& rack : job.racks) {
    if (client.worker_index() == first) return true;
    first += rack.workers;
  }
  return !job.rounds.waits_for_all();
}

ExchangeFacts facts_of(const Client& client, const ClientOptions& options) {
  return {.worker_index = client.worker_index(),
          .may_lead = may_lead(client, options.job),
          .workers = client.workers(),
          .racks = options.job.racks,
          .transport = std::string(client.transport()),
          .transport_reason = std::string(client.transport_reason()),
          .wire_type = options.job.wire_type,
          .state_at = state_arrays(options.job.rule) > 0 ? StateAt::kServers : StateAt::kNowhere,
          .rule = options.job.rule,
          .steps_before = client.rounds_before(),
          .samples_before = client.samples_before(),
          .peers = client.peers()};
}

class RemoteExchange : public GradientExchange {
 public:
  RemoteExchange(std::unique_ptr<Client> client, const std::vector<KeySpec>& keys,
                 const ClientOptions& options)
      : GradientExchange(facts_of(*client, options)),
        client_(std::move(client)),
        wire_(options.job.wire_type),
        votes_(options.job.loss_scale.kind == LossScaling::kVoted),
        steps_are_rounds_(options.job.rounds.waits_for_all() ||
                          options.job.rounds.late == LatePushes::kDrop),
        in_flight_(keys.size(), false) {
    if (wire_ != DataType::kFloat32) shadow_.emplace(keys);
  }

  std::span<float> gradient(KeyId key) override {
    return shadow_ ? shadow_->gradients.of(key) : client_->gradient<float>(key);
  }
  std::span<const float> parameter(KeyId key) const override {
    if (uses_wire_arrays_) from_wire(key);
    return shadow_ ? shadow_->parameters.of(key) : client_->parameter<float>(key);
  }

  std::span<std::byte> wire_gradient(KeyId key) override { return client_->gradient_bytes(key); }
  std::span<const std::byte> wire_parameter(KeyId key) const override {
    return client_->parameter_bytes(key);
  }
  void use_wire_arrays() override { uses_wire_arrays_ = true; }

  // Where late pushes are added, a round is no step of all workers.
  Status note_samples(const SampleLedger& ledger) override {
    return steps_are_rounds_ ? client_->note_samples(ledger) : Status();
  }

  Status report_steps(const StepWaits& times) override { return client_->report_steps(times); }

  Result<ArrayLayout> gpu_layout() const override {
    if (facts().transport == "verbs") return client_->layout();
    return Status(Code::kFailedPrecondition,
                  "the servers are reached over " + facts().transport + " (" +
                      facts().transport_reason +
                      "), and only transport verbs reads a GPU's memory");
  }
  Result<std::string> push_from(const ExportedMemoryPointer& gpu) override {
    PHUB_CHECK(uses_wire_arrays_, "a GPU writes gradients as they travel");
    auto how = client_->push_from(gpu);
    if (how) gradients_on_gpu_ = true;
    return how;
  }

  Status initialise() override {
    const auto keys = static_cast<KeyId>(in_flight_.size());
    for (KeyId key = 0; key < keys; ++key) to_wire(key);
    PHUB_RETURN_IF_ERROR(client_->initialise());
    PHUB_RETURN_IF_ERROR(client_->wait_all());
    for (KeyId key = 0; key < keys; ++key) from_wire(key);
    return {};
  }

  Status set_hyper(const Hyper& hyper) override { return client_->set_hyper(hyper); }

  Status set_loss_scale(float loss_scale) override {
    return votes_ ? client_->set_loss_scale(loss_scale) : Status();
  }

  Status push(KeyId key) override {
    PHUB_DCHECK(!in_flight_[key], "a key is waited for between two pushes");
    if (!uses_wire_arrays_) to_wire(key);
    if (votes_ && gradients_on_gpu_) {
      return {Code::kInternal, "gradients on a GPU are looked at there: push_checked"};
    }
    if (votes_ && !overflow_) {
      const auto wire = client_->gradient_bytes(key);
      overflow_ = !kernels::all_finite({wire.data(), wire_}, wire.size() / size_of(wire_));
    }
    return send(key);
  }

  Status push_checked(KeyId key, bool finite) override {
    if (shadow_ && !uses_wire_arrays_) return push(key);  // was looked at before it was rounded
    overflow_ = overflow_ || (votes_ && !finite);
    return send(key);
  }

  Status end_step(float loss_scale) override {
    if (!votes_) return {};
    const Vote vote{.loss_scale = loss_scale, .overflow = overflow_ ? 1U : 0U};
    overflow_ = false;
    return client_->vote(vote);
  }
  bool step_was_skipped() const override {
    for (KeyId key = 0; key < in_flight_.size(); ++key) {
      if (client_->was_skipped(key)) return true;
    }
    return false;
  }

  Status wait(KeyId key) override {
    if (!in_flight_[key]) return {};
    PHUB_RETURN_IF_ERROR(client_->wait(key));
    in_flight_[key] = false;
    if (!uses_wire_arrays_) from_wire(key);
    return {};
  }

  KeptBack kept_back(KeyId key) override { return client_->kept_back(key); }

  Result<std::vector<std::string>> snapshot() override { return client_->snapshot(); }
  Status check_snapshots() override { return client_->check_snapshots(); }

  Status end(const std::string& reason) override { return client_->end(reason); }
  std::string ending() const override { return client_->ending(); }
  Result<bool> is_last(std::uint64_t steps, std::uint32_t ahead) override {
    return client_->is_last(steps, ahead);
  }
  std::optional<std::uint64_t> last_step() const override { return client_->last_step(); }

  std::vector<std::uint32_t> workers_lost() const override { return client_->workers_lost(); }

  ExchangeStatistics statistics() const override {
    const ClientStatistics statistics = client_->statistics();
    return {statistics.bytes_pushed, statistics.bytes_received};
  }

 private:
  Status send(KeyId key) {
    in_flight_[key] = true;
    return client_->push(key);
  }

  void to_wire(KeyId key) {
    if (!shadow_) return;
    const auto from = shadow_->gradients.of(key);
    kernels::convert(client_->gradient_bytes(key).data(), wire_, std::as_bytes(from).data(),
                     DataType::kFloat32, from.size());
  }

  void from_wire(KeyId key) const {
    if (!shadow_) return;
    const auto to = shadow_->parameters.of(key);
    kernels::convert(std::as_writable_bytes(to).data(), DataType::kFloat32,
                     client_->parameter_bytes(key).data(), wire_, to.size());
  }

  std::unique_ptr<Client> client_;
  DataType wire_;
  bool votes_;
  bool steps_are_rounds_;
  bool overflow_ = false;  // a gradient of this step is not finite as it travels
  std::vector<bool> in_flight_;
  bool uses_wire_arrays_ = false;
  bool gradients_on_gpu_ = false;
  mutable std::optional<Shadow> shadow_;  // only with a 16-bit wire type
};

}  // namespace

Result<std::unique_ptr<GradientExchange>> make_remote_exchange(const ClientOptions& options,
                                                               const std::vector<KeySpec>& keys) {
  PHUB_ASSIGN_OR_RETURN(auto client, Client::connect(options));
  PHUB_RETURN_IF_ERROR(client->register_keys(keys));
  return std::unique_ptr<GradientExchange>(
      std::make_unique<RemoteExchange>(std::move(client), keys, options));
}

}  // namespace phub::train
