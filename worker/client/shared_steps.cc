#include "worker/client/shared_steps.h"

#include "kernels/hogwild.h"

namespace phub::client {

void step_shared(const ClientOptions& options, const KeySpec& key, const Hyper& hyper,
                 std::span<float> shared, const float* own) {
  if (is_elastic(options.job.rule)) {
    return kernels::hogwild_elastic(shared, own, hyper.learning_rate);
  }
  // A mean is over the pushes of a round, of which each is one.
  const float mean = 1.0F / static_cast<float>(options.job.workers);
  const bool is_mean = hyper.gradient_scale == 0.0F || hyper.gradient_scale == mean;
  kernels::hogwild_sgd(shared, own,
                       {.rate = hyper.learning_rate,
                        .gradient_scale = is_mean ? 1.0F : hyper.gradient_scale,
                        .weight_decay = key.weight_decay});
}

Status check_hogwild(const ClientOptions& options) {
  if (!options.job.rounds.hogwild) return {};
  if (options.servers.size() > 1) {
    return {Code::kInvalidArgument, "servers: " + std::to_string(options.servers.size()) +
                                        ", and rounds.hogwild is for one, on this host; name that"};
  }
  if (options.transport != "auto" && options.transport != "shm") {
    return {Code::kInvalidArgument, "transport: \"" + options.transport +
                                        "\" shares no memory, which rounds.hogwild needs; use shm"};
  }
  return {};
}

}  // namespace phub::client
