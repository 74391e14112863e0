#include "server/job/spec_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "common/base/rack.h"
#include "common/base/visible.h"

namespace phub::server {
namespace {

template <typename... Arguments>
Status invalid(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return {Code::kInvalidArgument, fmt::format(format, std::forward<Arguments>(arguments)...)};
}

// Names go into logs and tables.
Status validate_name(std::string_view field, std::string_view name, const JobLimits& limits) {
  if (name.empty()) return invalid("{}: must not be empty", field);
  if (name.size() > limits.name_chars_max) {
    return invalid("{}: has {} characters, at most {} are allowed", field, name.size(),
                   limits.name_chars_max);
  }
  for (const char character : name) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || code == 0x7F) {
      return invalid("{}: has a control character (code {})", field, code);
    }
  }
  if (!is_visible_name(name)) {
    return invalid("{}: must be UTF-8 without quotes and without invisible control characters",
                   field);
  }
  return {};
}

Status validate_keys(const JobSpec& spec, const JobLimits& limits) {
  if (spec.keys.size() > limits.keys_max) {
    return invalid("keys: {} given, at most {} are allowed; fuse small tensors", spec.keys.size(),
                   limits.keys_max);
  }
  std::unordered_set<std::string_view> names;
  names.reserve(spec.keys.size());
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const KeySpec& key = spec.keys[i];
    PHUB_RETURN_IF_ERROR(validate_name(fmt::format("keys[{}].name", i), key.name, limits));
    if (!names.insert(key.name).second) {
      return invalid("keys[{}].name: \"{}\" is there twice; names are unique in a job", i,
                     key.name);
    }
    if (key.elements == 0 || key.elements > limits.elements_max) {
      return invalid("keys[{}].elements: \"{}\" has {}, allowed are 1 to {}", i, key.name,
                     key.elements, limits.elements_max);
    }
    if (!std::isfinite(key.weight_decay) || key.weight_decay < 0.0F) {
      return invalid("keys[{}].weight_decay: \"{}\" has {}, it must be finite and not negative", i,
                     key.name, key.weight_decay);
    }
    if (key.exclude_from_lars && spec.rule != RuleKind::kLars) {
      return invalid(
          "keys[{}].exclude_from_lars: \"{}\" has it, but rule {} has no trust ratio; leave it out",
          i, key.name, name_of(spec.rule));
    }
    elements += key.elements;  // cannot wrap: keys_max * elements_max < 2^64
    if (elements > limits.elements_max) {
      return invalid("keys: more than {} elements in all", limits.elements_max);
    }
  }
  const std::uint64_t chunks = elements * size_of(spec.wire_type) / spec.chunk_bytes;
  if (chunks > limits.chunks_max) {
    return invalid(
        "chunk_bytes: {} cuts {} elements into {} chunks, at most {} are allowed; {} is enough",
        spec.chunk_bytes, elements, chunks, limits.chunks_max,
        std::bit_ceil(elements * size_of(spec.wire_type) / limits.chunks_max + 1));
  }
  return {};
}

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
      return invalid("{}: rule {} has none; leave it out, or choose adam or adamw", field,
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
        "clip_norm: the norm of all keys is known within one server, not over racks; "
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

Status validate_racks(const JobSpec& spec, const JobLimits& limits) {
  const bool has_hybrid = !spec.racks.empty() && spec.rack_shape == RackShape::kHybrid;
  if (spec.rack_hybrid_bytes > 0 && !has_hybrid) {
    return invalid(
        "rack_hybrid_bytes: means nothing but with racks and rack_shape hybrid; leave it "
        "out");
  }
  if (spec.racks.empty()) return {};
  if (spec.racks.size() < 2 || spec.racks.size() > kMaxRacks) {
    return invalid("racks: {}, allowed are 2 to {}; leave them out for one", spec.racks.size(),
                   kMaxRacks);
  }
  std::uint64_t workers = 0;
  for (std::size_t i = 0; i < spec.racks.size(); ++i) {
    const RackSpec& rack = spec.racks[i];
    PHUB_RETURN_IF_ERROR(validate_name(fmt::format("racks[{}].name", i), rack.name, limits));
    if (!is_rack_name(rack.name)) {
      return invalid("racks[{}].name: \"{}\" is no name of a rack, as site1/row2/rack3 is", i,
                     rack.name);
    }
    const auto is_same = [&](const RackSpec& other) { return other.name == rack.name; };
    if (std::count_if(spec.racks.begin(), spec.racks.end(), is_same) > 1) {
      return invalid("racks[{}].name: \"{}\" is there twice", i, rack.name);
    }
    if (rack.workers == 0) {
      return invalid("racks[{}].workers: rack \"{}\" has none; leave it out", i, rack.name);
    }
    workers += rack.workers;
  }
  if (spec.loss_scale.kind == LossScaling::kVoted && spec.rack_shape != RackShape::kSpread) {
    return invalid("rack_shape: {} has no way for votes; use spread, or a static loss scale",
                   name_of(spec.rack_shape));
  }
  if (spec.rack_shape == RackShape::kNested) {
    const std::string fault = nesting_fault(rack_names_of(spec));
    if (!fault.empty()) return invalid("rack_shape: {}", fault);
  }
  if (workers != spec.workers) {
    return invalid("racks: their workers are {} together, but workers is {}", workers,
                   spec.workers);
  }
  return {};
}

// What the way of a sparse push does not have yet.
Status validate_encoding(const JobSpec& spec) {
  if (spec.encoding == Encoding::kDense) return {};
  const std::string_view encoding = name_of(spec.encoding);
  if (!spec.racks.empty()) {
    return invalid(
        "encoding: {} is for jobs of one rack, but racks has {}; choose dense, or one rack",
        encoding, spec.racks.size());
  }
  if (needs_whole_keys(spec.rule)) {
    return invalid(
        "encoding: {} leaves rule {} without the norms of its gradients; choose dense, or momentum",
        encoding, name_of(spec.rule));
  }
  if (spec.loss_scale.kind == LossScaling::kVoted) {
    return invalid(
        "encoding: {} keeps parts of gradients for later rounds, whose loss_scaling voted may give "
        "another scale; choose dense, or a static scale",
        encoding);
  }
  return {};
}

// A quorum contradicts what needs everybody's pushes of a round.
Status validate_quorum(const JobSpec& spec) {
  const RoundPolicy& rounds = spec.rounds;
  if (rounds.quorum >= spec.workers) {
    return invalid("rounds.quorum: {} is not below workers, {}; leave it out to wait for all",
                   rounds.quorum, spec.workers);
  }
  if (!spec.racks.empty()) {
    return invalid(
        "rounds.quorum: contradicts racks, whose sums have every worker's push; leave one out");
  }
  if (spec.loss_scale.kind == LossScaling::kVoted) {
    return invalid(
        "rounds.quorum: contradicts loss_scaling voted, for which every worker votes; use a static "
        "loss scale");
  }
  if (needs_whole_keys(spec.rule)) {
    return invalid(
        "rounds.quorum: contradicts rule {}, whose trust is of one set of pushes for all of a key; "
        "choose momentum",
        name_of(spec.rule));
  }
  if (!has_parameters(spec.rule) && rounds.late == LatePushes::kAdd) {
    return invalid(
        "rounds.late: add contradicts rule {}, which has no parameters to reply with before a "
        "round is over; choose drop, or sgd",
        name_of(spec.rule));
  }
  if (spec.clip_norm > 0.0F) {
    return invalid(
        "rounds.quorum: contradicts clip_norm, whose norm is of one set of pushes for all keys; "
        "clip "
        "at the workers, or leave one out");
  }
  if (spec.deterministic) {
    return invalid(
        "order: deterministic contradicts rounds.quorum, with which time decides what a round has; "
        "set order to arrival");
  }
  if (rounds.grace_ms > kGraceMsMax) {
    return invalid("rounds.grace_ms: {} is more than {}", rounds.grace_ms,
                   std::uint32_t{kGraceMsMax});
  }
  if (rounds.patience_ms == 0 || rounds.patience_ms > kGraceMsMax) {
    return invalid("rounds.patience_ms: {}, allowed are 1 to {}", rounds.patience_ms,
                   std::uint32_t{kGraceMsMax});
  }
  if (rounds.grace_ms > 0 && rounds.late == LatePushes::kAdd) {
    return invalid(
        "rounds.grace_ms: means nothing where rounds.late is add, for nobody waits; leave it out");
  }
  if (rounds.weight == PushWeight::kStaleness && rounds.late == LatePushes::kDrop) {
    return invalid(
        "rounds.weight: staleness means nothing where rounds.late is drop; set that to add");
  }
  return {};
}

Status validate_rounds(const JobSpec& spec) {
  if (!spec.rounds.waits_for_all()) return validate_quorum(spec);
  if (spec.rounds == RoundPolicy()) return {};
  return invalid(
      "rounds: grace_ms, patience_ms, staleness, late and weight mean nothing without "
      "rounds.quorum; give it, or leave them out");
}

Status validate_watch(const JobSpec& spec) {
  const bool fails = spec.watch_values == WatchValues::kFail;
  if (!fails || spec.loss_scale.kind != LossScaling::kVoted) return {};
  return invalid(
      "watch_values: fail contradicts loss_scaling voted, whose factor is found by overflows; "
      "choose name, which tells whose they are");
}

std::string text_of_staleness(const RoundPolicy& rounds) {
  return rounds.staleness == kAnyStaleness ? "any" : std::to_string(rounds.staleness);
}

std::string text_of_racks(const std::vector<RackSpec>& racks) {
  std::string text;
  for (const RackSpec& rack : racks) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", rack.name, rack.workers);
  }
  return text.empty() ? "one" : text;
}

template <typename T>
Status same(std::string_view field, const T& existing, const T& joining) {
  if (existing == joining) return {};
  return invalid("{} is {} in the job but {} in this join; all workers must agree", field, existing,
                 joining);
}

Status compare_keys(const JobSpec& existing, const JobSpec& joining) {
  PHUB_RETURN_IF_ERROR(same("number of keys", existing.keys.size(), joining.keys.size()));
  for (std::size_t i = 0; i < existing.keys.size(); ++i) {
    const KeySpec& ours = existing.keys[i];
    const KeySpec& theirs = joining.keys[i];
    PHUB_RETURN_IF_ERROR(same(fmt::format("keys[{}].name", i), ours.name, theirs.name));
    const std::string key = fmt::format("keys[{}] (\"{}\")", i, ours.name);
    PHUB_RETURN_IF_ERROR(same(key + " elements", ours.elements, theirs.elements));
    PHUB_RETURN_IF_ERROR(same(key + " weight_decay", ours.weight_decay, theirs.weight_decay));
    PHUB_RETURN_IF_ERROR(
        same(key + " exclude_from_lars", ours.exclude_from_lars, theirs.exclude_from_lars));
  }
  return {};
}

}  // namespace

Status validate(const JobSpec& spec, const JobLimits& limits) {
  PHUB_RETURN_IF_ERROR(validate_name("name", spec.name, limits));
  if (spec.workers == 0 || spec.workers > kMaxWorkers) {
    return invalid("workers: {}, allowed are 1 to {}", spec.workers, kMaxWorkers);
  }
  if (spec.chunk_bytes < limits.chunk_bytes_min || spec.chunk_bytes > limits.chunk_bytes_max ||
      spec.chunk_bytes % kChunkAlignment != 0) {
    return invalid(
        "chunk_bytes: {}, allowed are multiples of {} from {} (smaller ones cost more bookkeeping "
        "than payload) to {}",
        spec.chunk_bytes, std::uint32_t{kChunkAlignment}, limits.chunk_bytes_min,
        limits.chunk_bytes_max);
  }
  PHUB_RETURN_IF_ERROR(validate_hyper(spec));
  PHUB_RETURN_IF_ERROR(validate_lars(spec));
  PHUB_RETURN_IF_ERROR(validate_adaptive(spec));
  PHUB_RETURN_IF_ERROR(validate_clip_norm(spec));
  PHUB_RETURN_IF_ERROR(validate_ema_decay(spec));
  PHUB_RETURN_IF_ERROR(validate_loss_scale(spec));
  PHUB_RETURN_IF_ERROR(validate_racks(spec, limits));
  PHUB_RETURN_IF_ERROR(validate_encoding(spec));
  PHUB_RETURN_IF_ERROR(validate_rounds(spec));
  PHUB_RETURN_IF_ERROR(validate_watch(spec));
  return validate_keys(spec, limits);
}

Status compare(const JobSpec& existing, const JobSpec& joining) {
  PHUB_RETURN_IF_ERROR(same("racks", text_of_racks(existing.racks), text_of_racks(joining.racks)));
  PHUB_RETURN_IF_ERROR(same("workers", existing.workers, joining.workers));
  PHUB_RETURN_IF_ERROR(same("wire_type", name_of(existing.wire_type), name_of(joining.wire_type)));
  PHUB_RETURN_IF_ERROR(same("rule", name_of(existing.rule), name_of(joining.rule)));
  const auto order = [](const JobSpec& spec) -> std::string_view {
    return spec.deterministic ? "deterministic" : "arrival";
  };
  PHUB_RETURN_IF_ERROR(same("order", order(existing), order(joining)));
  PHUB_RETURN_IF_ERROR(same("chunk_bytes", existing.chunk_bytes, joining.chunk_bytes));
  PHUB_RETURN_IF_ERROR(
      same("learning_rate", existing.hyper.learning_rate, joining.hyper.learning_rate));
  PHUB_RETURN_IF_ERROR(same("momentum", existing.hyper.momentum, joining.hyper.momentum));
  PHUB_RETURN_IF_ERROR(
      same("gradient_scale", gradient_scale_of(existing), gradient_scale_of(joining)));
  PHUB_RETURN_IF_ERROR(
      same("trust_coefficient", lars_of(existing).coefficient, lars_of(joining).coefficient));
  PHUB_RETURN_IF_ERROR(same("trust_epsilon", existing.lars.epsilon, joining.lars.epsilon));
  PHUB_RETURN_IF_ERROR(same("beta1", existing.adaptive.beta1, joining.adaptive.beta1));
  PHUB_RETURN_IF_ERROR(same("beta2", existing.adaptive.beta2, joining.adaptive.beta2));
  PHUB_RETURN_IF_ERROR(
      same("epsilon", adaptive_of(existing).epsilon, adaptive_of(joining).epsilon));
  PHUB_RETURN_IF_ERROR(same("clip_norm", existing.clip_norm, joining.clip_norm));
  PHUB_RETURN_IF_ERROR(same("ema_decay", existing.ema_decay, joining.ema_decay));
  PHUB_RETURN_IF_ERROR(
      same("loss_scaling", name_of(existing.loss_scale.kind), name_of(joining.loss_scale.kind)));
  PHUB_RETURN_IF_ERROR(same("loss_scale", existing.loss_scale.factor, joining.loss_scale.factor));
  PHUB_RETURN_IF_ERROR(
      same("rack_shape", name_of(existing.rack_shape), name_of(joining.rack_shape)));
  PHUB_RETURN_IF_ERROR(
      same("rack_hybrid_bytes", existing.rack_hybrid_bytes, joining.rack_hybrid_bytes));
  PHUB_RETURN_IF_ERROR(
      same("rack_wire_type", name_of(existing.rack_wire_type), name_of(joining.rack_wire_type)));
  PHUB_RETURN_IF_ERROR(same("encoding", name_of(existing.encoding), name_of(joining.encoding)));
  PHUB_RETURN_IF_ERROR(same("rounds.quorum", existing.rounds.quorum, joining.rounds.quorum));
  PHUB_RETURN_IF_ERROR(same("rounds.grace_ms", existing.rounds.grace_ms, joining.rounds.grace_ms));
  PHUB_RETURN_IF_ERROR(
      same("rounds.patience_ms", existing.rounds.patience_ms, joining.rounds.patience_ms));
  PHUB_RETURN_IF_ERROR(same("rounds.staleness", text_of_staleness(existing.rounds),
                            text_of_staleness(joining.rounds)));
  PHUB_RETURN_IF_ERROR(
      same("rounds.late", name_of(existing.rounds.late), name_of(joining.rounds.late)));
  PHUB_RETURN_IF_ERROR(
      same("rounds.weight", name_of(existing.rounds.weight), name_of(joining.rounds.weight)));
  PHUB_RETURN_IF_ERROR(
      same("watch_values", name_of(existing.watch_values), name_of(joining.watch_values)));
  return existing.keys.empty() ? Status() : compare_keys(existing, joining);
}

}  // namespace phub::server
