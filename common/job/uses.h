// The uses of a job's fields that the table of contradictions speaks of.
//
// Constants; any thread.
#pragma once

#include "common/job/contradictions.h"

namespace phub::uses {

// The rule.
inline constexpr Use kNoParameters{"rule", "rule sum or mean",
                                   [](const JobSpec& job) { return !has_parameters(job.rule); }};
inline constexpr Use kElastic{"rule", "rule elastic",
                              [](const JobSpec& job) { return is_elastic(job.rule); }};
inline constexpr Use kWholeKeys{"rule", "rule lars or lamb",
                                [](const JobSpec& job) { return needs_whole_keys(job.rule); }};
inline constexpr Use kLars{"rule", "rule lars",
                           [](const JobSpec& job) { return job.rule == RuleKind::kLars; }};
inline constexpr Use kNotLars{"rule", "a rule other than lars",
                              [](const JobSpec& job) { return job.rule != RuleKind::kLars; }};
inline constexpr Use kAdaptive{"rule", "rule adam, adamw, adagrad or lamb",
                               [](const JobSpec& job) { return is_adaptive(job.rule); }};
inline constexpr Use kNotAdaptive{"rule", "a rule other than adam, adamw, adagrad or lamb",
                                  [](const JobSpec& job) { return !is_adaptive(job.rule); }};
inline constexpr Use kNoBetas{"rule", "a rule other than adam, adamw or lamb",
                              [](const JobSpec& job) { return !has_betas(job.rule); }};
inline constexpr Use kOtherThanSgd{
    "rule", "a rule other than sgd or elastic",
    [](const JobSpec& job) { return job.rule != RuleKind::kSgd && !is_elastic(job.rule); }};
inline constexpr Use kNoMomentum{"rule", "a rule other than momentum, nesterov or lars",
                                 [](const JobSpec& job) { return !has_momentum(job.rule); }};
inline constexpr Use kRate{"learning_rate", "learning_rate",
                           [](const JobSpec& job) { return job.hyper.learning_rate != 0.0F; }};
inline constexpr Use kMomentum{"momentum", "momentum",
                               [](const JobSpec& job) { return job.hyper.momentum != 0.0F; }};
inline constexpr Use kScale{
    "gradient_scale", "a gradient_scale that is not the rule's", [](const JobSpec& job) {
      const float own = gradient_scale_of({.workers = job.workers, .rule = job.rule});
      return job.hyper.gradient_scale != 0.0F && job.hyper.gradient_scale != own;
    }};
inline constexpr Use kTrust{"trust_coefficient", "trust_coefficient",
                            [](const JobSpec& job) { return job.lars.coefficient != 0.0F; }};
inline constexpr Use kTrustEpsilon{"trust_epsilon", "trust_epsilon",
                                   [](const JobSpec& job) { return job.lars.epsilon != 0.0F; }};
inline constexpr Use kBeta1{"beta1", "beta1", [](const JobSpec& job) {
                              return job.adaptive.beta1 != AdaptiveOptions().beta1;
                            }};
inline constexpr Use kBeta2{"beta2", "beta2", [](const JobSpec& job) {
                              return job.adaptive.beta2 != AdaptiveOptions().beta2;
                            }};
inline constexpr Use kEpsilon{"epsilon", "epsilon",
                              [](const JobSpec& job) { return job.adaptive.epsilon != 0.0; }};
inline constexpr Use kClip{"clip_norm", "clip_norm",
                           [](const JobSpec& job) { return job.clip_norm > 0.0F; }};
inline constexpr Use kAverage{"ema_decay", "ema_decay",
                              [](const JobSpec& job) { return job.ema_decay > 0.0; }};
inline constexpr Use kLossScaling{"loss_scaling", "loss_scaling", [](const JobSpec& job) {
                                    return job.loss_scale.kind != LossScaling::kNone;
                                  }};
inline constexpr Use kVotes{"loss_scaling", "loss_scaling voted", [](const JobSpec& job) {
                              return job.loss_scale.kind == LossScaling::kVoted;
                            }};
inline constexpr Use kFactor{"loss_scale", "loss_scale",
                             [](const JobSpec& job) { return job.loss_scale.factor != 1.0F; }};
inline constexpr Use kNoFactor{
    "loss_scaling", "loss_scaling other than static",
    [](const JobSpec& job) { return job.loss_scale.kind != LossScaling::kStatic; }};

// How pushes travel.
inline constexpr Use kSixteenBits{"wire_type", "wire_type fp16 or bf16", [](const JobSpec& job) {
                                    return job.wire_type != DataType::kFloat32;
                                  }};
inline constexpr Use kEncoded{"encoding", "encoding sparse, int8 or int4",
                              [](const JobSpec& job) { return job.encoding != Encoding::kDense; }};
inline constexpr Use kChecksums{"checksums", "checksums",
                                [](const JobSpec& job) { return job.checksums; }};
inline constexpr Use kStreams{"tcp_streams", "tcp_streams",
                              [](const JobSpec& job) { return job.tcp_streams > 1; }};
inline constexpr Use kWatch{"watch_values", "watch_values", [](const JobSpec& job) {
                              return job.watch_values != WatchValues::kOff;
                            }};
inline constexpr Use kWatchFails{"watch_values", "watch_values fail", [](const JobSpec& job) {
                                   return job.watch_values == WatchValues::kFail;
                                 }};
inline constexpr Use kInOrder{"order", "order deterministic",
                              [](const JobSpec& job) { return job.deterministic; }};

// Racks.
inline constexpr Use kRacks{"racks", "racks",
                            [](const JobSpec& job) { return !job.racks.empty(); }};
inline constexpr Use kOneRack{"racks", "one rack",
                              [](const JobSpec& job) { return job.racks.empty(); }};
// Rounds are all racks' together.
inline constexpr Use kRacksTogether{
    "racks", "racks without rack_local_steps",
    [](const JobSpec& job) { return !job.racks.empty() && !job.rack_local.is_on(); }};
inline constexpr Use kShapedTogether{
    "rack_shape", "rack_shape other than spread, without rack_local_steps", [](const JobSpec& job) {
      return kRacksTogether.holds(job) && job.rack_shape != RackShape::kSpread;
    }};
inline constexpr Use kShape{"rack_shape", "rack_shape", [](const JobSpec& job) {
                              return job.rack_shape != RackShape::kSpread;
                            }};
inline constexpr Use kHybridBytes{"rack_hybrid_bytes", "rack_hybrid_bytes",
                                  [](const JobSpec& job) { return job.rack_hybrid_bytes > 0; }};
inline constexpr Use kNotHybrid{
    "rack_shape", "rack_shape other than hybrid",
    [](const JobSpec& job) { return job.rack_shape != RackShape::kHybrid; }};
inline constexpr Use kRackWireType{
    "rack_wire_type", "rack_wire_type fp16 or bf16",
    [](const JobSpec& job) { return job.rack_wire_type != DataType::kFloat32; }};
inline constexpr Use kRackCompress{
    "rack_compress.density", "rack_compress",
    [](const JobSpec& job) { return job.rack_compress != RackCompress(); }};

inline constexpr Use kRackLocal{"rack_local_steps", "rack_local_steps",
                                [](const JobSpec& job) { return job.rack_local.is_on(); }};
inline constexpr Use kNoRackLocal{"rack_local_steps", "no rack_local_steps",
                                  [](const JobSpec& job) { return !job.rack_local.is_on(); }};
inline constexpr Use kOuterRate{"rack_outer_rate", "rack_outer_rate", [](const JobSpec& job) {
                                  return job.rack_local.learning_rate != RackLocal().learning_rate;
                                }};
inline constexpr Use kOuterMomentum{
    "rack_outer_momentum", "rack_outer_momentum",
    [](const JobSpec& job) { return job.rack_local.momentum != RackLocal().momentum; }};

inline constexpr Use kRackQuorum{"rack_rounds.quorum", "rack_rounds.quorum",
                                 [](const JobSpec& job) { return job.rack_local.goes_on(); }};
inline constexpr Use kNoRackQuorum{"rack_rounds.quorum", "no rack_rounds.quorum",
                                   [](const JobSpec& job) { return !job.rack_local.goes_on(); }};
inline constexpr Use kRackWait{
    "rack_rounds.wait_ms", "rack_rounds.wait_ms",
    [](const JobSpec& job) { return job.rack_local.wait_ms != RackLocal().wait_ms; }};
inline constexpr Use kRacksThatWait{
    "racks", "racks without rack_rounds.quorum",
    [](const JobSpec& job) { return !job.racks.empty() && !job.rack_local.goes_on(); }};

// When a round is complete.
inline constexpr Use kQuorum{"rounds.quorum", "rounds.quorum",
                             [](const JobSpec& job) { return !job.rounds.waits_for_all(); }};
inline constexpr Use kNoQuorum{"rounds.quorum", "no rounds.quorum",
                               [](const JobSpec& job) { return job.rounds.waits_for_all(); }};
inline constexpr Use kOtherThanOne{"rounds.quorum", "a rounds.quorum other than 1",
                                   [](const JobSpec& job) { return job.rounds.quorum != 1; }};
inline constexpr Use kGrace{"rounds.grace_ms", "rounds.grace_ms",
                            [](const JobSpec& job) { return job.rounds.grace_ms > 0; }};
inline constexpr Use kPatience{"rounds.patience_ms", "rounds.patience_ms", [](const JobSpec& job) {
                                 return job.rounds.patience_ms != RoundPolicy().patience_ms;
                               }};
inline constexpr Use kStaleness{"rounds.staleness", "rounds.staleness", [](const JobSpec& job) {
                                  return job.rounds.staleness != kAnyStaleness;
                                }};
inline constexpr Use kLateAdded{"rounds.late", "rounds.late add", [](const JobSpec& job) {
                                  return job.rounds.late == LatePushes::kAdd;
                                }};
inline constexpr Use kLateDropped{"rounds.late", "rounds.late drop", [](const JobSpec& job) {
                                    return job.rounds.late == LatePushes::kDrop;
                                  }};
inline constexpr Use kWeighed{
    "rounds.weight", "rounds.weight staleness or samples",
    [](const JobSpec& job) { return job.rounds.weight != PushWeight::kOne; }};
inline constexpr Use kWeighedByAge{
    "rounds.weight", "rounds.weight staleness",
    [](const JobSpec& job) { return job.rounds.weight == PushWeight::kStaleness; }};
inline constexpr Use kTurns{"rounds.turns", "rounds.turns",
                            [](const JobSpec& job) { return job.rounds.turns; }};
inline constexpr Use kHogwild{"rounds.hogwild", "rounds.hogwild",
                              [](const JobSpec& job) { return job.rounds.hogwild; }};

}  // namespace phub::uses
