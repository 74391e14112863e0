#include "common/config/job.h"

#include <algorithm>
#include <string_view>

#include "common/config/payload.h"
#include "common/job/bounds.h"
#include "common/job/contradictions.h"
#include "common/job/fields.h"
#include "common/job/message.h"
#include "common/job/used_hyper.h"

namespace phub {
namespace {

bool pushes(const WorkerConfig& config, std::string_view payload) {
  return config.train().payload() == payload;
}

RuleKind rule_of(const WorkerConfig& config) {
  if (pushes(config, "gradient")) return parse_rule_kind(config.optimizer().rule()).value();
  const OuterConfig& outer = config.train().outer();
  if (outer.has_rule()) return parse_rule_kind(outer.rule()).value();
  return pushes(config, "weights") ? RuleKind::kElastic : RuleKind::kNesterov;
}

// They hold for the first round; worker 0 may change them later.
Hyper hyper_of(const WorkerConfig& config) {
  Hyper hyper{.gradient_scale = 0.0F};
  if (pushes(config, "weights")) {
    hyper.learning_rate = elasticity_of(config);
  } else if (pushes(config, "delta")) {
    const OuterConfig& outer = config.train().outer();
    hyper.learning_rate = outer.learning_rate();
    hyper.momentum = outer.momentum();
  } else {
    hyper.learning_rate = config.optimizer().learning_rate();
    hyper.momentum = config.optimizer().momentum();
  }
  return used_by(rule_of(config), hyper);  // fields have defaults, whatever the rule
}

// A dynamic scale is told by each round's votes.
LossScale loss_scale_of(const TrainConfig& train) {
  if (!train.has_loss_scale()) return {};
  if (train.loss_scale().has_dynamic()) return {LossScaling::kVoted, 1.0F};
  return {LossScaling::kStatic, train.loss_scale().factor()};
}

RackCompress rack_compress_of(const WorkerConfig& config) {
  if (!config.has_rack_compress()) return {};
  const RackCompressConfig& compress = config.rack_compress();
  return {.density = compress.density(),
          .dense_below = compress.dense_below(),
          .error_feedback = compress.error_feedback(),
          .selector = kSelectorWords.parse(compress.selector()).value()};
}

RoundPolicy rounds_of(const WorkerConfig& config) {
  if (!config.has_rounds()) return {};
  const RoundsConfig& rounds = config.rounds();
  // Nobody waits for a round where late pushes are added.
  const std::uint32_t third =
      rounds.late() == name_of(LatePushes::kAdd)
          ? kPatienceMs
          : std::clamp(config.timeout_ms() / 3, 1U, std::uint32_t{kGraceMsMax});
  return {.quorum = rounds.quorum(),
          .grace_ms = rounds.grace_ms(),
          .patience_ms = rounds.has_patience_ms() ? rounds.patience_ms() : third,
          .staleness = rounds.has_staleness() ? rounds.staleness() : kAnyStaleness,
          .late = kLatePushesWords.parse(rounds.late()).value(),
          .weight = kPushWeightWords.parse(rounds.weight()).value(),
          .turns = rounds.turns(),
          .hogwild = rounds.hogwild()};
}

void add_options_of_rule(const OptimizerConfig& optimizer, JobSpec& job) {
  if (job.rule == RuleKind::kLars) {
    job.lars = {.coefficient = optimizer.trust_coefficient(), .epsilon = optimizer.trust_epsilon()};
  }
  if (has_betas(job.rule)) {
    job.adaptive.beta1 = optimizer.beta1();
    job.adaptive.beta2 = optimizer.beta2();
  }
  if (is_adaptive(job.rule)) job.adaptive.epsilon = optimizer.epsilon();
}

// Where a configuration has a job's field.
constexpr std::string_view kPlaces[][2] = {{"rule", "optimizer.rule"},
                                           {"momentum", "optimizer.momentum"},
                                           {"clip_norm", "optimizer.clip_norm"},
                                           {"ema_decay", "optimizer.ema_decay"},
                                           {"loss_scaling", "train.loss_scale"},
                                           {"loss_scale", "train.loss_scale"},
                                           {"encoding", "train.compress.encoding"}};

std::string_view place_of(std::string_view field) {
  for (const auto& [job_field, place] : kPlaces) {
    if (job_field == field) return place;
  }
  return field;
}

}  // namespace

JobSpec job_of(const WorkerConfig& config) {
  JobSpec job{.name = config.job(),
              .workers = config.workers(),
              .wire_type = parse_data_type(config.wire_type()).value(),
              .rule = rule_of(config),
              .deterministic = config.order() == "deterministic",
              .chunk_bytes = config.chunk_kib() * 1024,
              .hyper = hyper_of(config),
              .clip_norm = config.optimizer().clip_norm(),
              .ema_decay = config.optimizer().ema_decay(),
              .loss_scale = loss_scale_of(config.train()),
              .rack_shape = rack_shape_of(config.rack_shape()).value(),
              .rack_hybrid_bytes = config.rack_hybrid_bytes(),
              .rack_wire_type = parse_data_type(config.rack_wire_type()).value(),
              .rack_compress = rack_compress_of(config),
              .rack_local = {.steps = config.rack_local_steps(),
                             .learning_rate = config.rack_outer_rate(),
                             .momentum = config.rack_outer_momentum(),
                             .quorum = config.rack_rounds().quorum(),
                             .wait_ms = config.rack_rounds().wait_ms()},
              .rounds = rounds_of(config),
              .watch_values = parse_watch_values(config.watch_values()).value(),
              .checksums = config.checksums(),
              .tcp_streams = config.tcp_streams(),
              .whole_replies = config.train().compress().whole_replies()};
  add_options_of_rule(config.optimizer(), job);
  for (const JobRackConfig& rack : config.racks()) {
    job.racks.push_back({rack.name(), rack.workers()});
  }
  if (config.train().has_compress()) {  // "auto" is agreed on before the job is joined
    job.encoding =
        kEncodingWords.parse(config.train().compress().encoding()).value_or(Encoding::kSparse);
  }
  return job;
}

void check_contradictions(const WorkerConfig& config, ConfigCheck& check) {
  const JobSpec job = job_of(config);
  if (config.has_rack_rounds() && !job.rack_local.goes_on()) {
    return check.refuse("rack_rounds.quorum", std::string(kRackRoundsWithoutQuorum));
  }
  Status status = check_bounds(job);
  if (status.ok()) status = check_contradictions(job);
  if (status.ok()) return;
  // "FIELD: ..."
  const std::string& message = status.message();
  const std::size_t colon = message.find(": ");
  check.refuse(place_of(message.substr(0, colon)), message.substr(colon + 2));
}

}  // namespace phub
