#include "server/job/spec/rule_check.h"

#include <cmath>
#include <string_view>

#include "server/job/spec/invalid.h"

namespace phub::server {
namespace {

Status validate_hyper(const JobSpec& spec) {
  const Hyper& hyper = spec.hyper;
  if (!std::isfinite(hyper.learning_rate) || hyper.learning_rate < 0.0F) {
    return invalid("learning_rate: {} must be finite and not negative", hyper.learning_rate);
  }
  if (!(hyper.momentum >= 0.0F && hyper.momentum < 1.0F)) {
    return invalid("momentum: {} is outside [0, 1)", hyper.momentum);
  }
  if (!std::isfinite(hyper.gradient_scale) || hyper.gradient_scale < 0.0F) {
    return invalid("gradient_scale: {} must be finite and not negative", hyper.gradient_scale);
  }
  const float scale = gradient_scale_of({.workers = spec.workers, .rule = spec.rule});
  if (!has_parameters(spec.rule) && hyper.gradient_scale != 0.0F && hyper.gradient_scale != scale) {
    return invalid("gradient_scale: rule {} scales by {}, not by {}; leave it out or choose sgd",
                   name_of(spec.rule), scale, hyper.gradient_scale);
  }
  return {};
}

Status validate_lars(const JobSpec& spec) {
  const LarsOptions& lars = spec.lars;
  if (spec.rule != RuleKind::kLars && lars != LarsOptions{.coefficient = 0.0F}) {
    return invalid("trust_coefficient: rule {} has neither this nor trust_epsilon; leave both out",
                   name_of(spec.rule));
  }
  if (!std::isfinite(lars.coefficient) || lars.coefficient < 0.0F) {
    return invalid("trust_coefficient: {} must be finite and not negative", lars.coefficient);
  }
  if (!std::isfinite(lars.epsilon) || lars.epsilon < 0.0F) {
    return invalid("trust_epsilon: {} must be finite and not negative", lars.epsilon);
  }
  return {};
}

Status validate_adaptive(const JobSpec& spec) {
  const AdaptiveOptions& given = spec.adaptive;
  const AdaptiveOptions defaults;
  if (!is_adaptive(spec.rule) && given.epsilon != 0.0) {
    return invalid("epsilon: rule {} has none (of lars it is trust_epsilon); leave it out",
                   name_of(spec.rule));
  }
  const auto check_beta = [&](std::string_view field, double beta, double otherwise) -> Status {
    if (!has_betas(spec.rule) && beta != otherwise) {
      return invalid("{}: rule {} has none; leave it out, or choose adam, adamw or lamb", field,
                     name_of(spec.rule));
    }
    if (!(beta >= 0.0 && beta < 1.0)) return invalid("{}: {} is outside [0, 1)", field, beta);
    return {};
  };
  PHUB_RETURN_IF_ERROR(check_beta("beta1", given.beta1, defaults.beta1));
  PHUB_RETURN_IF_ERROR(check_beta("beta2", given.beta2, defaults.beta2));
  if (!is_adaptive(spec.rule)) return {};
  if (!(adaptive_of(spec).epsilon >= kEpsilonMin && given.epsilon <= kEpsilonMax)) {
    return invalid("epsilon: {} must be from {} to {}", given.epsilon, kEpsilonMin, kEpsilonMax);
  }
  if (spec.hyper.momentum != 0.0F) {
    return invalid("momentum: rule {} has none; leave it out{}", name_of(spec.rule),
                   has_betas(spec.rule) ? ", or set beta1" : "");
  }
  return {};
}

Status validate_clip_norm(const JobSpec& spec) {
  if (!std::isfinite(spec.clip_norm) || spec.clip_norm < 0.0F) {
    return invalid("clip_norm: {} must be finite and not negative", spec.clip_norm);
  }
  if (spec.clip_norm == 0.0F) return {};
  if (!has_parameters(spec.rule)) {
    return invalid(
        "clip_norm: rule {} has no parameters to update; clip at the workers, or leave "
        "it out",
        name_of(spec.rule));
  }
  if (spec.rule == RuleKind::kLars) {
    return invalid("clip_norm: rule lars divides by each key's norm already; leave it out");
  }
  if (!spec.racks.empty()) {
    return invalid(
        "clip_norm: the norm of all keys is known within one rack, not over racks; "
        "leave out one of clip_norm and racks");
  }
  return {};
}

Status validate_ema_decay(const JobSpec& spec) {
  if (!(spec.ema_decay >= 0.0 && spec.ema_decay < 1.0)) {
    return invalid("ema_decay: {} is outside [0, 1)", spec.ema_decay);
  }
  if (spec.ema_decay == 0.0) return {};
  if (!has_parameters(spec.rule)) {
    return invalid("ema_decay: rule {} has no parameters to average; leave it out",
                   name_of(spec.rule));
  }
  if (!spec.racks.empty()) {
    return invalid(
        "ema_decay: no rack has the averages of all keys; leave out one of ema_decay "
        "and racks");
  }
  return {};
}

Status validate_loss_scale(const JobSpec& spec) {
  const LossScale& scale = spec.loss_scale;
  if (scale.kind != LossScaling::kNone && !has_parameters(spec.rule)) {
    return invalid(
        "loss_scaling: rule {} has no parameters to spare; divide the sum at the workers",
        name_of(spec.rule));
  }
  if (scale.kind != LossScaling::kStatic && scale.factor != 1.0F) {
    return invalid("loss_scale: {} is for static loss scaling only; leave it out", scale.factor);
  }
  if (!(scale.factor >= kLossScaleMin && scale.factor <= kLossScaleMax)) {
    return invalid("loss_scale: {} must be from 2^-10 to 2^24", scale.factor);
  }
  return {};
}

}  // namespace

Status validate_rule(const JobSpec& spec) {
  PHUB_RETURN_IF_ERROR(validate_hyper(spec));
  PHUB_RETURN_IF_ERROR(validate_lars(spec));
  PHUB_RETURN_IF_ERROR(validate_adaptive(spec));
  PHUB_RETURN_IF_ERROR(validate_clip_norm(spec));
  PHUB_RETURN_IF_ERROR(validate_ema_decay(spec));
  return validate_loss_scale(spec);
}

}  // namespace phub::server
