// A device for tests of comparisons: the interpreter, whose every buffer is rounded to its type;
// and what it may do wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/host_array.h"
#include "tests/cuda/support/step_comparison.h"

namespace phub::testing {

// An element as a buffer of the type has it.
inline float rounded(float value, nn::cuda::ElementType type) {
  using nn::cuda::ElementType;
  if (type == ElementType::kFloat32 || type == ElementType::kInt8) return value;
  const DataType stored = type == ElementType::kFloat16 ? DataType::kFloat16 : DataType::kBfloat16;
  std::uint16_t bits = 0;
  kernels::cuda::reference::store(&bits, stored, 0, value);
  return kernels::cuda::reference::load(&bits, stored, 0);
}

// What a device does wrong, to the buffers of a step that has just run.
using Fault = std::function<void(const nn::cuda::Step& step, const LoweredInterpreter& memory)>;

class RoundingDevice final : public StepDevice {
 public:
  static constexpr std::uint64_t kNoise = 99;

  explicit RoundingDevice(const nn::cuda::Lowered& lowered, Fault fault = {})
      : lowered_(lowered), interpreter_(lowered, kNoise), fault_(std::move(fault)) {}

  std::span<float> buffer(nn::cuda::BufferId id) const { return interpreter_.buffer(id); }
  Status run(nn::cuda::Pass pass, std::size_t index) override {
    const nn::cuda::Step& step = nn::cuda::steps_of(lowered_, pass)[index];
    interpreter_.run(step);
    for (const nn::cuda::BufferId id : step.buffers()) round(id);
    if (fault_) fault_(step, interpreter_);
    for (const nn::cuda::BufferId id : step.buffers()) round(id);
    return {};
  }
  Status read(nn::cuda::BufferId id, std::span<float> to) override {
    const std::span<const float> values = interpreter_.buffer(id);
    std::copy(values.begin(), values.end(), to.begin());
    return {};
  }
  Status write(nn::cuda::BufferId id, std::span<const float> from) override {
    std::copy(from.begin(), from.end(), interpreter_.buffer(id).begin());
    round(id);
    return {};
  }

 private:
  void round(nn::cuda::BufferId id) {
    for (float& value : interpreter_.buffer(id)) value = rounded(value, lowered_.buffer(id).type);
  }

  const nn::cuda::Lowered& lowered_;
  LoweredInterpreter interpreter_;
  const Fault fault_;
};

// Four ways for a buffer to be wrong.
struct WrongBuffer {
  const char* what;
  std::function<void(std::span<float>)> apply;
};
inline std::vector<WrongBuffer> wrong_buffers() {
  return {
      {"scaled by 4 %",
       [](std::span<float> b) {
         for (float& v : b) v *= 1.04F;
       }},
      {"the largest cut off",
       [](std::span<float> b) { *std::max_element(b.begin(), b.end()) *= 0.5F; }},
      {"not a number", [](std::span<float> b) { b[b.size() / 2] = NAN; }},
      {"the second half is zeros",
       [](std::span<float> b) {
         std::fill(b.begin() + static_cast<std::ptrdiff_t>(b.size() / 2), b.end(), 0.0F);
       }},
  };
}

}  // namespace phub::testing
