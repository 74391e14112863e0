#include "common/job/spec.h"

#include "common/protocol/sparse_push.h"

namespace phub {

float gradient_scale_of(const JobSpec& spec) {
  if (spec.hyper.gradient_scale != 0.0F) return spec.hyper.gradient_scale;
  return spec.rule == RuleKind::kSum ? 1.0F : 1.0F / static_cast<float>(spec.workers);
}

LarsOptions lars_of(const JobSpec& spec) {
  LarsOptions lars = spec.lars;
  if (lars.coefficient == 0.0F) lars.coefficient = LarsOptions().coefficient;
  return lars;
}

std::vector<std::string> rack_names_of(const JobSpec& spec) {
  std::vector<std::string> names;
  names.reserve(spec.racks.size());
  for (const RackSpec& rack : spec.racks) names.push_back(rack.name);
  return names;
}

AdaptiveOptions adaptive_of(const JobSpec& spec) {
  AdaptiveOptions adaptive = spec.adaptive;
  if (adaptive.epsilon == 0.0) adaptive.epsilon = default_epsilon(spec.rule);
  return adaptive;
}

bool has_sparse_replies(const JobSpec& spec) {
  return spec.encoding == Encoding::kSparse && spec.rounds.waits_for_all() && spec.racks.empty() &&
         !spec.whole_replies && wire::may_reply_sparse(spec.rule, spec.wire_type);
}

std::vector<RackTree> rack_trees_of(const JobSpec& spec) {
  return make_rack_trees(rack_names_of(spec), spec.rack_shape);
}

PlanInput plan_input(const JobSpec& spec, const std::vector<std::uint32_t>& cores_per_server,
                     const std::vector<std::uint64_t>& core_load_bytes) {
  PlanInput input{.key_elements = {},
                  .wire_type = spec.wire_type,
                  .chunk_bytes = spec.chunk_bytes,
                  .cores_per_server = cores_per_server,
                  .core_load_bytes = core_load_bytes,
                  .whole_keys = needs_whole_keys(spec.rule),
                  .rack_trees = static_cast<std::uint32_t>(rack_trees_of(spec).size()),
                  .small_key_trees = small_key_trees(static_cast<std::uint32_t>(spec.racks.size()),
                                                     spec.rack_shape),
                  .small_key_bytes = spec.rack_hybrid_bytes};
  if (input.rack_trees > 0) input.core_load_bytes.clear();
  input.key_elements.reserve(spec.keys.size());
  for (const KeySpec& key : spec.keys) input.key_elements.push_back(key.elements);
  return input;
}

}  // namespace phub
