#include "bench/exchange/phub_task.h"

#include <fmt/format.h>

#include <optional>

#include "bench/delay/delayed_endpoint.h"
#include "bench/exchange/reference.h"
#include "common/job/used_hyper.h"
#include "kernels/reduce.h"

namespace phub::bench {
namespace {

constexpr float kWeightDecay = 1e-4F;
constexpr float kMomentum = 0.9F;
// Small, so that thousands of rounds with the same gradient stay within 16-bit range.
constexpr float kTimedRate = 1e-5F;
constexpr float kVerifiedRate = 0.01F;
constexpr std::uint64_t kBytesPerKib = 1024;

std::vector<RackSpec> racks_of(const Work& work) {
  std::vector<RackSpec> all;
  for (const std::uint32_t workers : work.racks) all.push_back({rack_name(all.size()), workers});
  return all;
}

}  // namespace

Status PhubTask::connect(const std::vector<std::string>& addresses, const std::string& job) {
  const ClientOptions client{
      .servers = addresses,
      .job = {.name = job,
              .workers = work_.workers,
              .wire_type = work_.dtype,
              .rule = work_.rule,
              .deterministic = work_.deterministic,
              .chunk_bytes = static_cast<std::uint32_t>(work_.chunk_kib * kBytesPerKib),
              .hyper = hyper(kTimedRate, kMomentum),
              .loss_scale = {work_.vote ? LossScaling::kVoted : LossScaling::kNone},
              .racks = racks_of(work_),
              .rack_shape = rack_shape_of(work_.rack_shape).value_or(RackShape::kSpread),
              .rack_hybrid_bytes = work_.rack_hybrid_bytes,
              .watch_values = work_.watch ? WatchValues::kName : WatchValues::kOff,
              .checksums = work_.checksums,
              .tcp_streams = work_.tcp_streams},
      .worker_index = static_cast<std::int32_t>(index_),
      .transport = work_.transport,
      .links = {.tcp_congestion_control = work_.congestion,
                .tcp_buffer_kib = work_.tcp_buffer_kib,
                .tcp_front = delayed_by(std::chrono::microseconds(work_.tcp_delay_us))},
      .timeout = std::chrono::seconds(work_.wait_s)};
  PHUB_ASSIGN_OR_RETURN(client_, Client::connect(client));
  std::vector<KeySpec> specs;
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    specs.push_back({fmt::format("key{}", key), keys_[key], weight_decay()});
  }
  PHUB_RETURN_IF_ERROR(client_->register_keys(specs));
  if (!has_parameters(work_.rule)) return {};
  PHUB_RETURN_IF_ERROR(fill(0));
  return client_->initialise();
}

Status PhubTask::fill(std::uint32_t round) {
  std::uint64_t first = 0;
  for (KeyId key = 0; key < keys_.size(); ++key) {
    fill_wire(client_->gradient_bytes(key), work_.dtype, pattern(round), index_, first);
    first += keys_[key];
  }
  return {};
}

Status PhubTask::iterate() {
  // Backward finishes the last layer first.
  bool overflow = false;
  for (auto key = static_cast<KeyId>(keys_.size()); key-- > 0;) {
    if (work_.vote) {
      const kernels::Source wire{client_->gradient_bytes(key).data(), work_.dtype};
      overflow = !kernels::all_finite(wire, keys_[key]) || overflow;
    }
    PHUB_RETURN_IF_ERROR(client_->push(key));
  }
  if (work_.vote) PHUB_RETURN_IF_ERROR(client_->vote({.overflow = overflow ? 1U : 0U}));
  return client_->wait_all();
}

Result<std::uint64_t> PhubTask::verify(std::uint32_t round) {
  if (has_parameters(work_.rule)) return verify_update(round);
  PHUB_RETURN_IF_ERROR(fill(round));
  PHUB_RETURN_IF_ERROR(iterate());
  Reference reference(work_, keys_, weight_decay());
  if (auto wrong = reference.step(pattern(round), hyper(0.0F, 0.0F), results())) {
    return Status(Code::kDataLoss, "wrong sum at " + *wrong);
  }
  return result_checksum();
}

float PhubTask::weight_decay() const { return has_parameters(work_.rule) ? kWeightDecay : 0.0F; }

Pattern PhubTask::pattern(std::uint32_t round) const {
  return {pattern_modulus(work_.dtype, work_.workers), round};
}

Hyper PhubTask::hyper(float rate, float momentum) const {
  const float scale =
      work_.rule == RuleKind::kSum ? 1.0F : 1.0F / static_cast<float>(work_.workers);
  return used_by(work_.rule,
                 {.learning_rate = rate, .momentum = momentum, .gradient_scale = scale});
}

// Rounds whose outcome follows from the parameters alone: the first has no momentum, so it also
// sets the optimizer state to what is known. Worker 0 computes them; the bench compares the
// checksums of all workers.
Result<std::uint64_t> PhubTask::verify_update(std::uint32_t round) {
  constexpr std::uint32_t kRounds = 3;
  const bool computes = index_ == 0;
  Reference reference(work_, keys_, weight_decay());
  if (computes) reference.start(parameters());
  std::optional<std::string> wrong;  // all rounds are made in any case: the others wait in them
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    const Hyper now = hyper(kVerifiedRate, i == 0 ? 0.0F : kMomentum);
    PHUB_RETURN_IF_ERROR(client_->set_hyper(now));
    PHUB_RETURN_IF_ERROR(fill(round + i));
    PHUB_RETURN_IF_ERROR(iterate());
    if (!computes || wrong) continue;
    wrong = reference.step(pattern(round + i), now, results());
  }
  PHUB_RETURN_IF_ERROR(client_->set_hyper(hyper(kTimedRate, kMomentum)));
  if (wrong) return Status(Code::kDataLoss, "wrong update of " + *wrong);
  return result_checksum();
}

std::vector<float> PhubTask::parameters() const {
  std::vector<float> all;
  for (const auto bytes : results()) {
    const std::vector<float> values = widen(bytes, work_.dtype);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<std::span<const std::byte>> PhubTask::results() const {
  std::vector<std::span<const std::byte>> spans;
  for (KeyId key = 0; key < keys_.size(); ++key) spans.push_back(client_->parameter_bytes(key));
  return spans;
}

std::uint64_t PhubTask::result_checksum() const {
  std::uint64_t sum = 0;
  std::uint64_t first = 0;
  for (const auto bytes : results()) {
    const std::vector<float> values = widen(bytes, work_.dtype);
    sum += checksum(values, first);
    first += values.size();
  }
  return sum;
}

}  // namespace phub::bench
