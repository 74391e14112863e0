#include "tests/cuda/support/lowered_interpreter.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

#include "common/base/check.h"
#include "kernels/cuda/network_reference.h"
#include "tests/cuda/support/op_graph_interpreter.h"
#include "worker/cuda/lowered/kernel_arguments.h"
#include "worker/cuda/lowered/memory_plan.h"
#include "worker/nn/dropout.h"

namespace phub::testing {
namespace {

using namespace nn::cuda;  // NOLINT(google-build-using-namespace)

struct RunKernel {
  template <typename Arguments>
  void operator()(const Arguments& arguments) const {
    kernels::cuda::reference::run(arguments);
  }
  void operator()(const kernels::cuda::ApplySubsample& arguments) const {
    kernels::cuda::reference::run_forward(arguments);
  }
  void operator()(const SubsampleBackward& backward) const {
    kernels::cuda::reference::run_backward(backward.arguments);
  }
  void operator()(const KeepStatistics& keep) const {
    const std::size_t bytes = static_cast<std::size_t>(keep.channels) * sizeof(float);
    std::memcpy(keep.mean, keep.next_mean, bytes);
    std::memcpy(keep.variance, keep.next_variance, bytes);
  }
};

// Calls visit(position in the plain array, position in the padded one).
template <typename Visit>
void for_each_element(const ParameterLayout& layout, Visit visit) {
  for (std::int64_t k = 0; k < layout.k; ++k) {
    for (std::int64_t c = 0; c < layout.c; ++c) {
      for (std::int64_t p = 0; p < layout.pixels; ++p) {
        visit(static_cast<std::size_t>((k * layout.c + c) * layout.pixels + p),
              static_cast<std::size_t>((k * layout.pixels + p) * layout.padded_c + c));
      }
    }
  }
}

}  // namespace

LoweredInterpreter::LoweredInterpreter(const Lowered& lowered, std::uint64_t noise)
    : lowered_(lowered) {
  for (const std::string& layer : lowered.layers) {
    dropout_keys_.push_back(nn::DropoutMask(noise, layer, 0.0F).key());
  }
  const auto floats_of = [](const Buffer& buffer) { return buffer.bytes() / size_of(buffer.type); };
  const MemoryPlan plan =
      plan_memory(lowered, [&](const Buffer& buffer) { return floats_of(buffer) * sizeof(float); });
  memory_.assign(plan.bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  for (BufferId id = 0; id < lowered.buffers.size(); ++id) {
    buffers_.push_back(std::span<float>(memory_).subspan(plan.offsets[id] / sizeof(float),
                                                         floats_of(lowered.buffer(id))));
  }
  for (const ParameterLayout& parameter : lowered.parameters) fill(parameter.value, 0.0F);
  for (const StateLayout& state : lowered.states) fill(state.buffer, state.initial);
}

void LoweredInterpreter::fill(BufferId id, float value) {
  std::fill(buffers_[id].begin(), buffers_[id].end(), value);
}

void LoweredInterpreter::run(const std::vector<Step>& steps) {
  for (const Step& step : steps) run(step);
}

void LoweredInterpreter::run(const Step& step) {
  if (const auto* graph = std::get_if<GraphStep>(&step.work)) return run(*graph);
  run(std::get<KernelStep>(step.work), step.layer);
}

void LoweredInterpreter::run(const GraphStep& step) {
  std::vector<std::span<float>> memory;
  for (const BufferId id : step.buffers) memory.push_back(buffers_[id]);
  interpret(step.graph, memory);
}

void LoweredInterpreter::run(const KernelStep& step, std::size_t layer) {
  const KernelMemory memory{[this](BufferId id) -> void* { return buffers_[id].data(); },
                            DataType::kFloat32, &dropout_keys_[layer]};
  std::visit(RunKernel{}, arguments_of(lowered_, step, memory));
}

void LoweredInterpreter::write_parameter(std::size_t key, std::span<const float> plain) {
  const ParameterLayout& layout = lowered_.parameters[key];
  const std::span<float> padded = buffers_[layout.value];
  PHUB_CHECK(static_cast<std::int64_t>(plain.size()) == layout.k * layout.c * layout.pixels,
             "a parameter's elements");
  for_each_element(layout, [&](std::size_t from, std::size_t to) { padded[to] = plain[from]; });
}

std::vector<float> LoweredInterpreter::read_gradient(std::size_t key) const {
  const ParameterLayout& layout = lowered_.parameters[key];
  std::vector<float> plain(static_cast<std::size_t>(layout.k * layout.c * layout.pixels));
  for_each_element(layout, [&](std::size_t to, std::size_t from) {
    plain[to] = buffers_[layout.gradient][from];
  });
  return plain;
}

void LoweredInterpreter::write_image(BufferId id, std::span<const float> plain,
                                     std::int64_t channels) {
  const auto used = static_cast<std::size_t>(channels);
  const auto padded = static_cast<std::size_t>(lowered_.buffer(id).dimensions[1]);
  fill(id, 0.0F);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    buffers_[id][i / used * padded + i % used] = plain[i];
  }
}

std::vector<float> LoweredInterpreter::read_image(BufferId id, std::int64_t channels) const {
  const auto used = static_cast<std::size_t>(channels);
  const auto padded = static_cast<std::size_t>(lowered_.buffer(id).dimensions[1]);
  std::vector<float> plain(buffers_[id].size() / padded * used);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    plain[i] = buffers_[id][i / used * padded + i % used];
  }
  return plain;
}

}  // namespace phub::testing
