// A lowered network's steps on a device against the interpreter's, one step at a time.
//
// Before each step the interpreter is given what the device has in the step's buffers; both run
// this one step, and what it wrote is compared. So an error does not grow from step to step, where
// a ReLU would turn a rounding into another gradient, and the step that is wrong is named.
//
// The bound follows from the step's own arithmetic: how far its outputs move when each input moves
// by a rounding of its type, and a rounding of the output. What is badly conditioned (a variance
// from two sums, a gradient that cancels) has its room, and nothing else has.
//
// Owned by a test; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/cuda/support/lowered_interpreter.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/lowered/runner.h"

namespace phub::testing {

// Who runs single steps: a GPU, or a stand-in. Calls return when it is done.
class StepDevice {
 public:
  virtual ~StepDevice() = default;
  virtual Status run(nn::cuda::Pass pass, std::size_t step) = 0;
  // Elements as fp32; written ones are rounded to the buffer's type. Never of kInt8.
  virtual Status read(nn::cuda::BufferId id, std::span<float> to) = 0;
  virtual Status write(nn::cuda::BufferId id, std::span<const float> from) = 0;
};

// A buffer that a step wrote otherwise than it should.
struct Difference {
  std::string step;
  std::string buffer;
  double rms = 0.0;      // root of the mean squared difference
  double allowed = 0.0;  // for it
  std::size_t outliers = 0;
  std::size_t elements = 0;

  std::string text() const;
};

class StepComparison {
 public:
  struct Channels {
    std::int64_t input = 0;  // not padded
    std::int64_t output = 0;
  };

  // `noise`: of dropout, as the device has it. The lowered network and the device outlive this.
  StepComparison(const nn::cuda::Lowered& lowered, StepDevice& device, const Channels& channels,
                 std::uint64_t noise);

  // Random parameters, images and gradients of the output, on both; then forward, backward and
  // inference. Empty: every step does what it should. Error: the device's.
  Result<std::vector<Difference>> run();

 private:
  using Values = std::vector<std::vector<float>>;  // of a step's buffers

  Status prepare();
  Status write_random(nn::cuda::BufferId id, std::int64_t channels);
  Status compare_pass(nn::cuda::Pass pass, std::vector<Difference>& differences);
  Status compare(nn::cuda::Pass pass, std::size_t index, std::vector<Difference>& differences);
  Status spread_maxima(const nn::cuda::Step& step);
  Result<Values> read(const std::vector<nn::cuda::BufferId>& ids);
  // Runs the step on the interpreter with these inputs; what its buffers have then.
  Values interpret(const nn::cuda::Step& step, const Values& inputs);
  Values disturbed(const nn::cuda::Step& step, const Values& inputs);

  const nn::cuda::Lowered& lowered_;
  StepDevice& device_;
  const Channels channels_;
  LoweredInterpreter interpreter_;
  std::mt19937 random_{5};
};

}  // namespace phub::testing
