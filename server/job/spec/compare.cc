// Which specs are the same job.
#include <string>
#include <string_view>
#include <vector>

#include "server/job/spec/check.h"
#include "server/job/spec/invalid.h"

namespace phub::server {
namespace {

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

Status compare_rack_compress(const RackCompress& existing, const RackCompress& joining) {
  PHUB_RETURN_IF_ERROR(same("rack_compress.density", existing.density, joining.density));
  PHUB_RETURN_IF_ERROR(
      same("rack_compress.dense_below", existing.dense_below, joining.dense_below));
  PHUB_RETURN_IF_ERROR(
      same("rack_compress.error_feedback", existing.error_feedback, joining.error_feedback));
  return same("rack_compress.selector", name_of(existing.selector), name_of(joining.selector));
}

}  // namespace

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
  PHUB_RETURN_IF_ERROR(compare_rack_compress(existing.rack_compress, joining.rack_compress));
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
  PHUB_RETURN_IF_ERROR(same("rounds.turns", existing.rounds.turns, joining.rounds.turns));
  PHUB_RETURN_IF_ERROR(same("rounds.hogwild", existing.rounds.hogwild, joining.rounds.hogwild));
  PHUB_RETURN_IF_ERROR(
      same("watch_values", name_of(existing.watch_values), name_of(joining.watch_values)));
  PHUB_RETURN_IF_ERROR(same("checksums", existing.checksums, joining.checksums));
  PHUB_RETURN_IF_ERROR(same("tcp_streams", existing.tcp_streams, joining.tcp_streams));
  return existing.keys.empty() ? Status() : compare_keys(existing, joining);
}

}  // namespace phub::server
