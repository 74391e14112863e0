// Times training steps of one network: no input pipeline, one batch of noise over and over. In this
// process alone, what an exchange and an input pipeline can be compared with; or through servers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/rule.h"
#include "common/base/status.h"
#include "worker/nn/graph/graph.h"
#include "worker/train/backends.h"
#include "worker/train/exchange/gradient_exchange.h"

namespace phub::train {

// Of a bench in fp16, unless told otherwise.
inline constexpr float kHalfLossScale = 1024.0F;

struct StepBenchOptions {
  ExecutorOptions executor{.batch = 64};
  // Nothing: in this process. On a GPU that is the executor's own.
  ExchangeFactory exchange{};
  RuleKind rule = RuleKind::kNesterov;
  float loss_scale = 1.0F;    // the exchange divides by it
  std::uint32_t warm_up = 5;  // steps that are not timed
  std::uint32_t steps = 30;
  std::uint64_t seed = 1;
};

// Seconds of one step. Forward begins with the images' copy to the backend; a GPU keeps them, as
// frameworks do with synthetic images. The update is the server's rule on this thread, key by key
// as backward hands gradients over, or the pushes and waits of an exchange; backward is without it.
// On a GPU, whose work is queued, only the total is known: from the end of one step to that of the
// next.
struct StepTimes {
  double forward = 0.0;
  double loss = 0.0;
  double backward = 0.0;
  double update = 0.0;
  double total = 0.0;
};

// The calling thread becomes the compute thread. `on_step` is called after each step, with its
// number from 1, those of the warm-up included. Errors: kInvalidArgument names the option;
// kAborted if the loss is not finite.
Result<std::vector<StepTimes>> bench_steps(const nn::Graph& graph, const StepBenchOptions& options,
                                           const std::function<void(std::uint32_t)>& on_step);

// The same steps, then each step of a device's list by itself, `options.steps` times. Errors:
// kInvalidArgument: the backend has no such list.
Result<nn::DeviceProfile> bench_device_steps(const nn::Graph& graph,
                                             const StepBenchOptions& options);

}  // namespace phub::train
