#include "tests/cuda/support/step_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "tests/cuda/support/step_bounds.h"

namespace phub::testing {
namespace {

using namespace nn::cuda;  // NOLINT(google-build-using-namespace)

bool is_index(const Buffer& buffer) { return buffer.type == ElementType::kInt8; }

double rms(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) {
    if (std::isfinite(value)) squares += double{value} * double{value};
  }
  return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

double rms_difference(std::span<const float> a, std::span<const float> b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(difference(a[i], b[i]), 2);
  return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(a.size(), 1)));
}

}  // namespace

std::string Difference::text() const {
  return fmt::format("{}: {} differs by {:.2e} where {:.2e} is allowed; {} of {} far off", step,
                     buffer, rms, allowed, outliers, elements);
}

StepComparison::StepComparison(const Lowered& lowered, StepDevice& device, const Channels& channels,
                               std::uint64_t noise)
    : lowered_(lowered), device_(device), channels_(channels), interpreter_(lowered, noise) {}

Result<std::vector<Difference>> StepComparison::run() {
  std::vector<Difference> differences;
  PHUB_RETURN_IF_ERROR(prepare());
  PHUB_RETURN_IF_ERROR(compare_pass(Pass::kForward, differences));
  PHUB_RETURN_IF_ERROR(write_random(lowered_.output_gradient, channels_.output));
  PHUB_RETURN_IF_ERROR(compare_pass(Pass::kBackward, differences));
  PHUB_RETURN_IF_ERROR(compare_pass(Pass::kInference, differences));
  return differences;
}

Status StepComparison::prepare() {
  for (BufferId id = 0; id < lowered_.buffers.size(); ++id) {
    const Buffer& buffer = lowered_.buffer(id);
    if (buffer.role == BufferRole::kState || is_index(buffer)) continue;
    const std::vector<float> zeros(buffer.bytes() / size_of(buffer.type));
    PHUB_RETURN_IF_ERROR(device_.write(id, zeros));
  }
  for (std::size_t key = 0; key < lowered_.parameters.size(); ++key) {
    const ParameterLayout& layout = lowered_.parameters[key];
    // Of a size that keeps activations near 1.
    const double fan_in = static_cast<double>(layout.c * layout.pixels);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> plain(static_cast<std::size_t>(layout.k * layout.c * layout.pixels));
    for (float& value : plain) {
      value = static_cast<float>(std::sqrt(3.0 / fan_in)) * uniform(random_);
    }
    interpreter_.write_parameter(key, plain);
    PHUB_RETURN_IF_ERROR(device_.write(layout.value, interpreter_.buffer(layout.value)));
  }
  return write_random(lowered_.input, channels_.input);
}

Status StepComparison::write_random(BufferId id, std::int64_t channels) {
  const Buffer& buffer = lowered_.buffer(id);
  const auto padded = static_cast<std::size_t>(buffer.dimensions[1]);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(buffer.bytes() / size_of(buffer.type));
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (at % padded < static_cast<std::size_t>(channels)) values[at] = uniform(random_);
  }
  return device_.write(id, values);
}

Status StepComparison::compare_pass(Pass pass, std::vector<Difference>& differences) {
  for (std::size_t index = 0; index < steps_of(lowered_, pass).size(); ++index) {
    PHUB_RETURN_IF_ERROR(compare(pass, index, differences));
  }
  return {};
}

Status StepComparison::spread_maxima(const Step& step) {
  const auto* work = std::get_if<GraphStep>(&step.work);
  if (work == nullptr) return {};
  for (const Operation& operation : work->graph.operations()) {
    const auto* pool = std::get_if<PoolForwardOp>(&operation);
    if (pool == nullptr || pool->mode != PoolMode::kMax) continue;
    std::size_t at = 0;  // of the operand among those with memory
    for (OperandId id = 0; id < pool->x; ++id) {
      if (work->graph.operand(id).storage == Storage::kDevice) ++at;
    }
    if (work->graph.operand(pool->x).storage != Storage::kDevice) continue;
    const Dimensions& d = work->graph.operand(pool->x).dimensions;
    std::vector<float> values;
    for (std::int64_t n = 0; n < d[0]; ++n) {
      for (std::int64_t h = 0; h < d[2]; ++h) {
        for (std::int64_t w = 0; w < d[3]; ++w) {
          for (std::int64_t c = 0; c < d[1]; ++c) {
            values.push_back(spread_level(n, c, h, w));
          }
        }
      }
    }
    PHUB_RETURN_IF_ERROR(device_.write(work->buffers[at], values));
  }
  return {};
}

Result<StepComparison::Values> StepComparison::read(const std::vector<BufferId>& ids) {
  Values values;
  for (const BufferId id : ids) {
    const std::span<const float> own = interpreter_.buffer(id);
    values.emplace_back(own.begin(), own.end());  // indices are the interpreter's own
    if (!is_index(lowered_.buffer(id))) PHUB_RETURN_IF_ERROR(device_.read(id, values.back()));
  }
  return values;
}

StepComparison::Values StepComparison::interpret(const Step& step, const Values& inputs) {
  const std::vector<BufferId>& ids = step.buffers();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::copy(inputs[i].begin(), inputs[i].end(), interpreter_.buffer(ids[i]).begin());
  }
  interpreter_.run(step);
  Values outputs;
  for (const BufferId id : ids) {
    const std::span<const float> own = interpreter_.buffer(id);
    outputs.emplace_back(own.begin(), own.end());
  }
  return outputs;
}

StepComparison::Values StepComparison::disturbed(const Step& step, const Values& inputs) {
  Values moved = inputs;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const Buffer& buffer = lowered_.buffer(step.buffers()[i]);
    if (is_index(buffer)) continue;
    const auto by = static_cast<float>(rounding_of(buffer.type));
    for (float& value : moved[i]) value *= (random_() & 1U) != 0 ? 1.0F + by : 1.0F - by;
  }
  return interpret(step, moved);
}

Status StepComparison::compare(Pass pass, std::size_t index, std::vector<Difference>& differences) {
  const Step& step = steps_of(lowered_, pass)[index];
  const std::vector<BufferId>& ids = step.buffers();
  PHUB_RETURN_IF_ERROR(spread_maxima(step));
  PHUB_ASSIGN_OR_RETURN(const Values inputs, read(ids));
  Values disturbances[kDisturbances];
  for (Values& one : disturbances) one = disturbed(step, inputs);
  const Values expected = interpret(step, inputs);  // last: its indices are kept for backward
  PHUB_RETURN_IF_ERROR(device_.run(pass, index));
  PHUB_ASSIGN_OR_RETURN(const Values found, read(ids));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Buffer& buffer = lowered_.buffer(ids[i]);
    if (is_index(buffer)) continue;
    // Of an input that is not written the disturbance is its own, and the difference 0.
    double moved = 0.0;
    for (const Values& one : disturbances) {
      moved = std::max(moved, rms_difference(one[i], expected[i]));
    }
    const double rounding = rounding_of(buffer.type);
    Difference is{.step = step.name, .buffer = buffer.name, .elements = expected[i].size()};
    is.rms = rms_difference(found[i], expected[i]);
    is.allowed = allowed_difference(buffer.type, moved, rms(expected[i]));
    for (std::size_t at = 0; at < expected[i].size(); ++at) {
      if (is_far_off(found[i][at], expected[i][at], is.allowed, rounding)) ++is.outliers;
    }
    const bool is_right = is.rms <= is.allowed && is.outliers <= outliers_allowed(is.elements);
    if (!is_right) differences.push_back(std::move(is));
  }
  return {};
}

}  // namespace phub::testing
