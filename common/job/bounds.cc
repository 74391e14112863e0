#include "common/job/bounds.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/job/invalid.h"

namespace phub {
namespace {

constexpr std::uint32_t kMaxRackLocalSteps = 1'000'000;

Status not_negative(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0.0) return {};
  return invalid("{}: {} must be finite and not negative", field, static_cast<float>(value));
}

Status share_below_one(std::string_view field, double value) {
  if (value >= 0.0 && value < 1.0) return {};
  return invalid("{}: {} is outside [0, 1)", field, value);
}

Status from_to(std::string_view field, std::uint32_t value, std::uint32_t least,
               std::uint32_t most) {
  if (value >= least && value <= most) return {};
  return invalid("{}: {}, allowed are {} to {}", field, value, least, most);
}

Status check_rule(const JobSpec& spec) {
  PHUB_RETURN_IF_ERROR(not_negative("learning_rate", spec.hyper.learning_rate));
  PHUB_RETURN_IF_ERROR(share_below_one("momentum", spec.hyper.momentum));
  PHUB_RETURN_IF_ERROR(not_negative("gradient_scale", spec.hyper.gradient_scale));
  PHUB_RETURN_IF_ERROR(not_negative("trust_coefficient", spec.lars.coefficient));
  PHUB_RETURN_IF_ERROR(not_negative("trust_epsilon", spec.lars.epsilon));
  PHUB_RETURN_IF_ERROR(share_below_one("beta1", spec.adaptive.beta1));
  PHUB_RETURN_IF_ERROR(share_below_one("beta2", spec.adaptive.beta2));
  const double epsilon = spec.adaptive.epsilon;
  if (epsilon != 0.0 && !(epsilon >= kEpsilonMin && epsilon <= kEpsilonMax)) {
    return invalid("epsilon: {} must be from {} to {}", epsilon, kEpsilonMin, kEpsilonMax);
  }
  PHUB_RETURN_IF_ERROR(not_negative("clip_norm", spec.clip_norm));
  PHUB_RETURN_IF_ERROR(share_below_one("ema_decay", spec.ema_decay));
  const float factor = spec.loss_scale.factor;
  if (factor >= kLossScaleMin && factor <= kLossScaleMax) return {};
  return invalid("loss_scale: {} must be from 2^-10 to 2^24", factor);
}

// The centre stays between itself and the workers' mean.
Status check_elasticity(const JobSpec& spec) {
  if (!is_elastic(spec.rule)) return {};
  const std::uint32_t pushes = most_pushes(spec.rounds, spec.workers);
  const float rate = spec.hyper.learning_rate;
  if (rate * static_cast<float>(pushes) < 1.0F) return {};
  return invalid(
      "learning_rate: rule elastic moves the centre by {} for each of the {} pushes of a round, "
      "which must be less than the whole way together; choose less than 1 / {}, as {}",
      rate, pushes, pushes, default_elasticity(spec.workers));
}

Status check_rounds(const JobSpec& spec) {
  const RoundPolicy& rounds = spec.rounds;
  if (!rounds.waits_for_all() && rounds.quorum >= spec.workers) {
    return invalid("rounds.quorum: {} is not below workers, {}; leave it out to wait for all",
                   rounds.quorum, spec.workers);
  }
  std::uint32_t most = 0;  // workers of a rack
  for (const RackSpec& rack : spec.racks) most = std::max(most, rack.workers);
  if (spec.rack_local.goes_on() && most > 0 && rounds.quorum >= most) {
    return invalid(
        "rounds.quorum: {} is not below the workers of a rack, {}; leave it out to wait "
        "for all of a rack",
        rounds.quorum, most);
  }
  PHUB_RETURN_IF_ERROR(from_to("rounds.grace_ms", rounds.grace_ms, 0, kGraceMsMax));
  return from_to("rounds.patience_ms", rounds.patience_ms, 1, kGraceMsMax);
}

Status check_rack_local(const JobSpec& spec) {
  const RackLocal& local = spec.rack_local;
  PHUB_RETURN_IF_ERROR(from_to("rack_local_steps", local.steps, 0, kMaxRackLocalSteps));
  PHUB_RETURN_IF_ERROR(not_negative("rack_outer_rate", local.learning_rate));
  PHUB_RETURN_IF_ERROR(share_below_one("rack_outer_momentum", local.momentum));
  PHUB_RETURN_IF_ERROR(from_to("rack_rounds.wait_ms", local.wait_ms, 0, kGraceMsMax));
  if (spec.racks.empty() || local.quorum <= spec.racks.size()) return {};
  return invalid("rack_rounds.quorum: {} is above the number of racks, {}; choose less",
                 local.quorum, spec.racks.size());
}

}  // namespace

Status check_bounds(const JobSpec& spec) {
  PHUB_RETURN_IF_ERROR(check_rule(spec));
  PHUB_RETURN_IF_ERROR(check_elasticity(spec));
  PHUB_RETURN_IF_ERROR(check_rounds(spec));
  PHUB_RETURN_IF_ERROR(from_to("tcp_streams", spec.tcp_streams, 1, kMaxTcpStreams));
  PHUB_RETURN_IF_ERROR(check_rack_local(spec));
  const float density = spec.rack_compress.density;
  if (spec.rack_compress == RackCompress() || (density > 0.0F && density <= 1.0F)) return {};
  return invalid("rack_compress.density: {} is not above 0 and at most 1", density);
}

}  // namespace phub
