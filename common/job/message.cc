#include "common/job/message.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/job/enums.h"

namespace phub {
namespace {

Result<LossScale> loss_scale_from(const control::JobSpec& message) {
  PHUB_ASSIGN_OR_RETURN(const LossScaling kind,
                        enum_from<LossScaling>("loss_scaling", message.loss_scaling()));
  return LossScale{kind, message.loss_scale() == 0.0F ? 1.0F : message.loss_scale()};
}

Result<RoundPolicy> rounds_from(const control::RoundPolicy& message) {
  PHUB_ASSIGN_OR_RETURN(const LatePushes late,
                        enum_from<LatePushes>("rounds.late", message.late()));
  PHUB_ASSIGN_OR_RETURN(const PushWeight weight,
                        enum_from<PushWeight>("rounds.weight", message.weight()));
  if (message.has_staleness() && message.staleness() == kAnyStaleness) {
    return Status(Code::kInvalidArgument,
                  "rounds.staleness: 4294967295 is no bound; leave it out for any staleness");
  }
  return RoundPolicy{
      .quorum = message.quorum(),
      .grace_ms = message.grace_ms(),
      .patience_ms = message.patience_ms() == 0 ? kPatienceMs : message.patience_ms(),
      .staleness = message.has_staleness() ? message.staleness() : kAnyStaleness,
      .late = late,
      .weight = weight,
      .turns = message.turns(),
      .hogwild = message.hogwild()};
}

void fill(const RoundPolicy& rounds, control::RoundPolicy& message) {
  message.set_quorum(rounds.quorum);
  message.set_grace_ms(rounds.grace_ms);
  message.set_patience_ms(rounds.patience_ms);
  if (rounds.staleness != kAnyStaleness) message.set_staleness(rounds.staleness);
  message.set_late(message_of(rounds.late));
  message.set_weight(message_of(rounds.weight));
  message.set_turns(rounds.turns);
  message.set_hogwild(rounds.hogwild);
}

Result<RackCompress> rack_compress_from(const control::RackCompress& message) {
  RackCompress compress{.density = message.density()};
  if (!(compress.density > 0.0F)) {
    return Status(Code::kInvalidArgument,
                  "rack_compress.density: is missing, or not above 0; give a share of a chunk's "
                  "elements, such as 0.01, or leave rack_compress out");
  }
  if (message.has_dense_below()) compress.dense_below = message.dense_below();
  if (message.has_error_feedback()) compress.error_feedback = message.error_feedback();
  if (message.has_selector()) {
    PHUB_ASSIGN_OR_RETURN(compress.selector,
                          enum_from<Selector>("rack_compress.selector", message.selector()));
  }
  return compress;
}

void fill(const RackCompress& compress, control::RackCompress& message) {
  message.set_density(compress.density);
  message.set_dense_below(compress.dense_below);
  message.set_error_feedback(compress.error_feedback);
  message.set_selector(message_of(compress.selector));
}

Result<RackLocal> rack_local_from(const control::JobSpec& message) {
  RackLocal local{.steps = message.rack_local_steps()};
  if (message.has_rack_outer_rate()) local.learning_rate = message.rack_outer_rate();
  if (message.has_rack_outer_momentum()) local.momentum = message.rack_outer_momentum();
  local.quorum = message.rack_rounds().quorum();
  if (message.rack_rounds().has_wait_ms()) local.wait_ms = message.rack_rounds().wait_ms();
  const bool waits_otherwise = local.wait_ms != RackLocal().wait_ms;  // a contradiction
  if (message.has_rack_rounds() && local.quorum == 0 && !waits_otherwise) {
    return Status(Code::kInvalidArgument,
                  fmt::format("rack_rounds.quorum: {}", kRackRoundsWithoutQuorum));
  }
  return local;
}

void fill(const RackLocal& local, control::JobSpec& message) {
  message.set_rack_local_steps(local.steps);
  if (local.learning_rate != RackLocal().learning_rate) {
    message.set_rack_outer_rate(local.learning_rate);
  }
  if (local.momentum != RackLocal().momentum) message.set_rack_outer_momentum(local.momentum);
  if (local.quorum != 0) message.mutable_rack_rounds()->set_quorum(local.quorum);
  if (local.wait_ms != RackLocal().wait_ms) {
    message.mutable_rack_rounds()->set_wait_ms(local.wait_ms);
  }
}

AdaptiveOptions adaptive_from(const control::JobSpec& message) {
  AdaptiveOptions adaptive{.epsilon = message.epsilon()};
  if (message.has_beta1()) adaptive.beta1 = message.beta1();
  if (message.has_beta2()) adaptive.beta2 = message.beta2();
  return adaptive;
}

}  // namespace

Result<JobSpec> spec_from(const control::JobSpec& message) {
  PHUB_ASSIGN_OR_RETURN(JobSpec spec, spec_without_keys(message));
  append(message.keys(), spec.keys);
  return spec;
}

void append(const google::protobuf::RepeatedPtrField<control::Key>& messages,
            std::vector<KeySpec>& keys) {
  for (const control::Key& key : messages) {
    keys.push_back({.name = key.name(),
                    .elements = key.elements(),
                    .weight_decay = key.weight_decay(),
                    .exclude_from_lars = key.exclude_from_lars()});
  }
}

Result<JobSpec> spec_without_keys(const control::JobSpec& message) {
  PHUB_ASSIGN_OR_RETURN(const DataType wire_type,
                        enum_from<DataType>("wire_type", message.wire_type()));
  PHUB_ASSIGN_OR_RETURN(const RuleKind rule, enum_from<RuleKind>("rule", message.rule()));
  PHUB_ASSIGN_OR_RETURN(const LossScale loss_scale, loss_scale_from(message));
  if (message.order() != control::ORDER_DETERMINISTIC &&
      message.order() != control::ORDER_ARRIVAL) {
    return unknown_enumerator("order", message.order());
  }
  PHUB_ASSIGN_OR_RETURN(const RackShape rack_shape,
                        enum_from<RackShape>("rack_shape", message.rack_shape()));
  PHUB_ASSIGN_OR_RETURN(const DataType rack_wire_type,
                        enum_from<DataType>("rack_wire_type", message.rack_wire_type()));
  RackCompress rack_compress;
  if (message.has_rack_compress()) {
    PHUB_ASSIGN_OR_RETURN(rack_compress, rack_compress_from(message.rack_compress()));
  }
  PHUB_ASSIGN_OR_RETURN(const Encoding encoding,
                        enum_from<Encoding>("encoding", message.encoding()));
  PHUB_ASSIGN_OR_RETURN(const RackLocal rack_local, rack_local_from(message));
  PHUB_ASSIGN_OR_RETURN(const RoundPolicy rounds, rounds_from(message.rounds()));
  PHUB_ASSIGN_OR_RETURN(const WatchValues watch,
                        enum_from<WatchValues>("watch_values", message.watch_values()));
  std::vector<RackSpec> racks;
  for (const control::JobRack& rack : message.racks())
    racks.push_back({rack.name(), rack.workers()});
  return JobSpec{
      .name = message.name(),
      .workers = message.workers(),
      .wire_type = wire_type,
      .rule = rule,
      .deterministic = message.order() == control::ORDER_DETERMINISTIC,
      .chunk_bytes = message.chunk_bytes() == 0 ? JobSpec().chunk_bytes : message.chunk_bytes(),
      .hyper = {.learning_rate = message.learning_rate(),
                .momentum = message.momentum(),
                .gradient_scale = message.gradient_scale()},
      .lars = {.coefficient = message.trust_coefficient(), .epsilon = message.trust_epsilon()},
      .adaptive = adaptive_from(message),
      .clip_norm = message.clip_norm(),
      .ema_decay = message.ema_decay(),
      .loss_scale = loss_scale,
      .keys = {},
      .racks = std::move(racks),
      .rack_shape = rack_shape,
      .rack_hybrid_bytes = message.rack_hybrid_bytes(),
      .rack_wire_type = rack_wire_type,
      .rack_compress = rack_compress,
      .rack_local = rack_local,
      .encoding = encoding,
      .rounds = rounds,
      .watch_values = watch,
      .checksums = message.checksums(),
      .tcp_streams = std::max(message.tcp_streams(), 1U),
      .whole_replies = message.whole_replies()};
}

void fill(const JobSpec& spec, control::JobSpec& message) {
  message.set_name(spec.name);
  message.set_workers(spec.workers);
  message.set_wire_type(message_of(spec.wire_type));
  message.set_rule(message_of(spec.rule));
  message.set_order(spec.deterministic ? control::ORDER_DETERMINISTIC : control::ORDER_ARRIVAL);
  message.set_chunk_bytes(spec.chunk_bytes);
  message.set_learning_rate(spec.hyper.learning_rate);
  message.set_momentum(spec.hyper.momentum);
  message.set_gradient_scale(gradient_scale_of(spec));
  message.set_loss_scaling(message_of(spec.loss_scale.kind));
  if (spec.rounds != RoundPolicy()) fill(spec.rounds, *message.mutable_rounds());
  for (const RackSpec& rack : spec.racks) {
    control::JobRack& entry = *message.add_racks();
    entry.set_name(rack.name);
    entry.set_workers(rack.workers);
  }
  message.set_rack_shape(message_of(spec.rack_shape));
  message.set_rack_hybrid_bytes(spec.rack_hybrid_bytes);
  message.set_rack_wire_type(message_of(spec.rack_wire_type));
  if (spec.rack_compress != RackCompress()) {
    fill(spec.rack_compress, *message.mutable_rack_compress());
  }
  message.set_encoding(message_of(spec.encoding));
  message.set_watch_values(message_of(spec.watch_values));
  message.set_checksums(spec.checksums);
  message.set_whole_replies(spec.whole_replies);
  fill(spec.rack_local, message);
  if (spec.tcp_streams != 1) message.set_tcp_streams(spec.tcp_streams);
  // A factor that this kind does not have is said too: the server refuses it.
  if (spec.loss_scale.kind == LossScaling::kStatic || spec.loss_scale.factor != 1.0F) {
    message.set_loss_scale(spec.loss_scale.factor);
  }
  // Said too where the rule has none: the server refuses what is not the default.
  const bool is_lars = spec.rule == RuleKind::kLars;
  message.set_trust_coefficient(is_lars ? lars_of(spec).coefficient : spec.lars.coefficient);
  message.set_trust_epsilon(spec.lars.epsilon);
  message.set_clip_norm(spec.clip_norm);
  message.set_ema_decay(spec.ema_decay);
  const AdaptiveOptions defaults;
  if (has_betas(spec.rule) || spec.adaptive.beta1 != defaults.beta1) {
    message.set_beta1(spec.adaptive.beta1);
  }
  if (has_betas(spec.rule) || spec.adaptive.beta2 != defaults.beta2) {
    message.set_beta2(spec.adaptive.beta2);
  }
  message.set_epsilon(is_adaptive(spec.rule) ? adaptive_of(spec).epsilon : spec.adaptive.epsilon);
}

std::size_t add_keys(const std::vector<KeySpec>& keys, control::JobSpec& message, std::size_t first,
                     std::size_t bytes_max) {
  std::size_t bytes = 0;
  std::size_t next = first;
  for (; next < keys.size() && bytes < bytes_max; ++next) {
    const KeySpec& key = keys[next];
    control::Key* const entry = message.add_keys();
    entry->set_name(key.name);
    entry->set_elements(key.elements);
    entry->set_weight_decay(key.weight_decay);
    entry->set_exclude_from_lars(key.exclude_from_lars);
    bytes += entry->ByteSizeLong();
  }
  return next;
}

}  // namespace phub
