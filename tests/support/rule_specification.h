// What a job's parameters are after each round, by the scalar specification of the kernels: one
// element at a time, chunk by chunk in the plan's order. What servers compute must have these bits.
//
// A test's thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/clip.h"
#include "kernels/lamb.h"
#include "kernels/lars.h"
#include "kernels/reference.h"
#include "server/plane/data_plane.h"

namespace phub::testing {

class RuleSpecification {
 public:
  // A worker's gradient (or initial parameter) of one element of a key.
  using Value = std::function<float(std::uint32_t worker, std::uint32_t key, std::uint64_t i)>;

  explicit RuleSpecification(const server::JobLayout& layout)
      : layout_(layout),
        plan_(*layout.plan),
        parameters_(plan_.arena_elements),
        state_(std::max(1U, state_arrays(layout.rule)) * plan_.arena_elements),
        sum_(plan_.arena_elements) {}

  void initialise(const Value& value) {
    for (const Segment& segment : plan_.segments) {
      for (std::uint64_t i = 0; i < segment.elements; ++i) {
        const std::uint64_t at = segment.key_offset + i;
        element(segment.key, at) = on_wire(value(0, segment.key, at));
      }
    }
  }

  // `factor`: gradients are so many times too large. Returns how many chunks were not updated, or
  // in part.
  std::size_t round(const Hyper& hyper, float factor, const Value& gradient) {
    Hyper unscaled = hyper;
    unscaled.gradient_scale /= factor;
    add_up(gradient);
    if (layout_.clip_norm > 0.0F) {
      const float clip =
          kernels::clip_coefficient(layout_.clip_norm, all_squares(), unscaled.gradient_scale);
      if (!std::isfinite(clip)) {
        skipped_.assign(plan_.chunks.size(), true);
        return skipped_.size();
      }
      unscaled.gradient_scale *= clip;
    }
    std::vector<float> trust(plan_.key_offset.size(), 1.0F);
    if (layout_.rule == RuleKind::kLars) trust = all_trust(unscaled.gradient_scale);
    adaptive_ =
        kernels::adaptive_step(layout_.rule, layout_.adaptive, hyper.learning_rate, rounds_++);
    if (layout_.rule == RuleKind::kLamb) trust = lamb_trust(unscaled);
    skipped_.clear();
    for (const Chunk& chunk : plan_.chunks) {
      const bool finite = kernels::reference::all_finite(
          {reinterpret_cast<const std::byte*>(sum_.data() + chunk.arena_offset),
           DataType::kFloat32},
          chunk.elements);
      const bool checks = layout_.loss_scale.kind != LossScaling::kNone;
      bool whole = true;
      for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
        const Segment& segment = plan_.segments[chunk.first_segment + i];
        const bool leaves_out =
            needs_whole_keys(layout_.rule) ? !std::isfinite(trust[segment.key]) : checks && !finite;
        whole = whole && !leaves_out;
        if (!leaves_out) update(segment, unscaled, trust[segment.key]);
      }
      skipped_.push_back(!whole);
    }
    return static_cast<std::size_t>(std::count(skipped_.begin(), skipped_.end(), true));
  }
  // Whether the last round did not update the chunk, or in part.
  bool skipped(std::size_t chunk) const { return skipped_[chunk]; }

  // As it is published.
  float parameter(std::uint32_t key, std::uint64_t i) const {
    return on_wire(parameters_[plan_.key_offset[key] + i]);
  }

 private:
  float& element(std::uint32_t key, std::uint64_t i) {
    return parameters_[plan_.key_offset[key] + i];
  }

  float on_wire(float value) const {
    std::byte wire[sizeof(float)];
    const auto bytes = [](float& of) { return reinterpret_cast<std::byte*>(&of); };
    kernels::reference::convert(wire, layout_.wire_type, bytes(value), DataType::kFloat32, 1);
    kernels::reference::convert(bytes(value), DataType::kFloat32, wire, layout_.wire_type, 1);
    return value;
  }

  void add_up(const Value& gradient) {
    for (const Segment& segment : plan_.segments) {
      for (std::uint64_t i = 0; i < segment.elements; ++i) {
        const std::uint64_t at = segment.key_offset + i;
        float& sum = sum_[plan_.key_offset[segment.key] + at];
        sum = on_wire(gradient(0, segment.key, at));
        for (std::uint32_t w = 1; w < layout_.workers; ++w) {
          sum += on_wire(gradient(w, segment.key, at));
        }
      }
    }
  }

  double squares_of(const Chunk& chunk) const {
    return kernels::reference::sum_of_squares(sum_.data() + chunk.arena_offset, chunk.elements);
  }

  // With one server chunk by chunk; with several, core by core.
  double all_squares() const {
    double squares = 0.0;
    if (plan_.core_chunks.size() == 1) {
      for (const Chunk& chunk : plan_.chunks) squares += squares_of(chunk);
      return squares;
    }
    for (const auto& cores : plan_.core_chunks) {
      for (const auto& chunks : cores) {
        double part = 0.0;
        for (const std::uint32_t id : chunks) part += squares_of(plan_.chunks[id]);
        squares += part;
      }
    }
    return squares;
  }

  std::vector<float> all_trust(float gradient_scale) const {
    std::vector<kernels::KeySquares> squares(plan_.key_offset.size());
    for (const Segment& segment : plan_.segments) {
      const std::uint64_t offset = plan_.key_offset[segment.key] + segment.key_offset;
      kernels::KeySquares& key = squares[segment.key];
      key.parameters +=
          kernels::reference::sum_of_squares(parameters_.data() + offset, segment.elements);
      key.gradients += kernels::reference::sum_of_squares(sum_.data() + offset, segment.elements);
    }
    std::vector<float> trust;
    for (std::size_t key = 0; key < squares.size(); ++key) {
      trust.push_back(
          kernels::trust_of(layout_.lars, squares[key], gradient_scale, layout_.weight_decay[key]));
      const bool exclude_from_lars =
          !layout_.exclude_from_lars.empty() && layout_.exclude_from_lars[key];
      if (exclude_from_lars && std::isfinite(trust.back())) trust.back() = 1.0F;
    }
    return trust;
  }

  // Leaves directions where sums were.
  std::vector<float> lamb_trust(const Hyper& hyper) {
    std::vector<kernels::KeySquares> squares(plan_.key_offset.size());
    for (const Segment& segment : plan_.segments) {
      const std::uint64_t offset = plan_.key_offset[segment.key] + segment.key_offset;
      squares[segment.key].parameters +=
          kernels::reference::sum_of_squares(parameters_.data() + offset, segment.elements);
      squares[segment.key].gradients +=
          kernels::reference::sum_of_squares(sum_.data() + offset, segment.elements);
    }
    std::vector<float> trust;
    std::vector<double> directions(squares.size());
    for (const Segment& segment : plan_.segments) {
      if (!std::isfinite(squares[segment.key].gradients)) continue;
      float* const sum = sum_.data() + plan_.key_offset[segment.key] + segment.key_offset;
      const kernels::Source source = {reinterpret_cast<const std::byte*>(sum), DataType::kFloat32};
      kernels::reference::lamb_direction(arguments(segment, source, hyper, 1.0F), sum);
      directions[segment.key] += kernels::reference::sum_of_squares(sum, segment.elements);
    }
    for (std::size_t key = 0; key < squares.size(); ++key) {
      const bool is_finite = std::isfinite(squares[key].gradients);
      trust.push_back(is_finite ? kernels::lamb_trust(squares[key].parameters, directions[key])
                                : std::numeric_limits<float>::quiet_NaN());
      const bool is_plain = !layout_.exclude_from_lars.empty() && layout_.exclude_from_lars[key];
      if (is_plain && std::isfinite(trust.back())) trust.back() = 1.0F;
    }
    return trust;
  }

  kernels::Update arguments(const Segment& segment, const kernels::Source& sum, const Hyper& hyper,
                            float trust) {
    const std::uint64_t offset = plan_.key_offset[segment.key] + segment.key_offset;
    return {.sources = {&sum, 1},
            .elements = segment.elements,
            .rule = layout_.rule,
            .hyper = hyper,
            .weight_decay = layout_.weight_decay[segment.key],
            .trust = trust,
            .adaptive = &adaptive_,
            .parameters = parameters_.data() + offset,
            .state = state_.data() + offset,
            .state_stride = plan_.arena_elements};
  }

  void update(const Segment& segment, const Hyper& hyper, float trust) {
    const std::uint64_t offset = plan_.key_offset[segment.key] + segment.key_offset;
    const kernels::Source sum = {reinterpret_cast<const std::byte*>(sum_.data() + offset),
                                 DataType::kFloat32};
    kernels::reference::update(arguments(segment, sum, hyper, trust));
  }

  server::JobLayout layout_;
  const Plan& plan_;
  std::uint64_t rounds_ = 0;                     // without those that votes left out
  kernels::AdaptiveStep adaptive_;               // of the round
  std::vector<float> parameters_, state_, sum_;  // fp32, in the arena's layout
  std::vector<bool> skipped_;                    // by chunk, of the last round
};

}  // namespace phub::testing
