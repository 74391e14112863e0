#include "worker/nn/graph/segments.h"

#include <utility>

#include "common/plan/plan.h"

namespace phub::nn {
namespace {

// Where chunks are placed is left to the job: one core takes all here.
Result<Plan> plan_of(const std::vector<std::uint64_t>& key_elements,
                     const SegmentOptions& options) {
  return make_plan({.key_elements = key_elements,
                    .wire_type = options.type,
                    .chunk_bytes = options.chunk_bytes,
                    .cores_per_server = {1}});
}

}  // namespace

Result<KeyLayout> key_layout(const std::vector<std::uint64_t>& key_elements,
                             const SegmentOptions& options) {
  PHUB_ASSIGN_OR_RETURN(Plan plan, plan_of(key_elements, options));
  return KeyLayout{std::move(plan.key_offset), plan.arena_elements};
}

Result<SegmentTable> SegmentTable::of(const Graph& graph, const SegmentOptions& options) {
  std::vector<std::uint64_t> key_elements;
  SegmentTable table;
  for (const Layer& layer : graph.layers()) {
    for (const ParameterSpec& spec : layer.parameters) {
      key_elements.push_back(spec.elements());
      table.segments_.push_back({.name = spec.name,
                                 .shape = spec.shape,
                                 .elements = spec.elements(),
                                 .type = options.type,
                                 .decay = spec.decays(),
                                 .lars = spec.lars()});
    }
  }
  PHUB_ASSIGN_OR_RETURN(const Plan plan, plan_of(key_elements, options));
  for (std::size_t key = 0; key < table.segments_.size(); ++key) {
    table.segments_[key].offset = plan.key_offset[key];
    table.segments_[key].first_chunk = plan.first_chunk[key];
    table.segments_[key].chunks = plan.chunk_count[key];
  }
  table.elements_ = plan.arena_elements;
  table.chunks_ = static_cast<std::uint32_t>(plan.chunks.size());
  return table;
}

}  // namespace phub::nn
