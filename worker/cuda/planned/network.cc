#include "worker/cuda/planned/network.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "worker/cuda/planned/kernel_launch.h"
#include "worker/nn/dropout.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<PlannedNetwork>> PlannedNetwork::create(EngineBook& book, Lowered lowered,
                                                               const PlanOptions& options) {
  std::unique_ptr<PlannedNetwork> network(new PlannedNetwork(book, std::move(lowered), options));
  PHUB_RETURN_IF_ERROR(network->prepare());
  return network;
}

Status PlannedNetwork::prepare() {
  plan_ = plan_memory(lowered_, &Buffer::bytes);
  const std::string what =
      "activations, gradients and parameters (a smaller train.batch needs less)";
  PHUB_ASSIGN_OR_RETURN(memory_, allocate(plan_.bytes, what));
  const std::size_t tuned = book_.tuned();
  PHUB_RETURN_IF_ERROR(plan_graphs());
  if (book_.tuned() > tuned) PHUB_RETURN_IF_ERROR(clear(*memory_, what));
  std::int64_t workspace = 0;
  for (const auto& [key, plan] : plans_) workspace = std::max(workspace, plan->workspace_bytes());
  book_.free_workspace();
  PHUB_ASSIGN_OR_RETURN(workspace_,
                        allocate(static_cast<std::size_t>(workspace), "cuDNN's workspace"));
  PHUB_ASSIGN_OR_RETURN(dropout_keys_,
                        allocate(lowered_.layers.size() * sizeof(std::uint64_t), "dropout's keys"));
  std::vector<float> initial;
  for (const StateLayout& state : lowered_.states) {
    initial.assign(static_cast<std::size_t>(state.channels), state.initial);
    PHUB_RETURN_IF_ERROR(
        cuda_status(cudaMemcpy(address(state.buffer), initial.data(),
                               initial.size() * sizeof(float), cudaMemcpyHostToDevice),
                    state.name));
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kInference}) {
    PHUB_ASSIGN_OR_RETURN(runnables(pass), bind(steps_of(lowered_, pass)));
  }
  return {};
}

Status PlannedNetwork::plan_graphs() {
  const auto different =
      different_graphs({&lowered_.forward, &lowered_.backward, &lowered_.inference});
  for (std::size_t i = 0; i < different.size(); ++i) {
    options_.progress(i, different.size());
    PHUB_ASSIGN_OR_RETURN(plans_[different[i]->graph.key()],
                          book_.plan(*different[i], [this](BufferId id) { return address(id); }));
  }
  return {};
}

Result<std::vector<PlannedNetwork::Runnable>> PlannedNetwork::bind(
    const std::vector<Step>& steps) const {
  std::vector<Runnable> bound;
  for (const Step& step : steps) {
    bound.push_back({&step, nullptr, nullptr});
    const auto* graph = std::get_if<GraphStep>(&step.work);
    if (graph == nullptr) continue;
    bound.back().plan = plans_.at(graph->graph.key());
    const auto addresses = addresses_of(*graph, [this](BufferId id) { return address(id); });
    PHUB_ASSIGN_OR_RETURN(bound.back().bound,
                          bound.back().plan->bind(addresses, workspace_->address));
  }
  return bound;
}

Status PlannedNetwork::set_noise(std::uint64_t noise, cudaStream_t stream) {
  std::vector<std::uint64_t> keys;
  // The ratio decides the threshold, not the key.
  for (const std::string& layer : lowered_.layers) {
    keys.push_back(DropoutMask(noise, layer, 0.0F).key());
  }
  PHUB_RETURN_IF_ERROR(cuda_status(
      cudaMemcpyAsync(dropout_keys_->address, keys.data(), keys.size() * sizeof(std::uint64_t),
                      cudaMemcpyHostToDevice, stream),
      "dropout's keys"));
  return cuda_status(cudaStreamSynchronize(stream), "dropout's keys");
}

Status PlannedNetwork::run(Pass pass, cudaStream_t stream) {
  return run(pass, 0, runnables(pass).size(), stream);
}

Status PlannedNetwork::run(Pass pass, std::size_t first, std::size_t last, cudaStream_t stream) {
  PHUB_RETURN_IF_ERROR(book_.target().set_stream(stream));
  const std::span<const Runnable> steps(runnables(pass));
  for (const Runnable& runnable : steps.subspan(first, last - first)) {
    PHUB_RETURN_IF_ERROR(run(runnable, stream));
  }
  return {};
}

Status PlannedNetwork::run(const Runnable& runnable, cudaStream_t stream) const {
  const Step& step = *runnable.step;
  if (runnable.plan != nullptr) {
    const Status status = runnable.plan->execute(*runnable.bound);
    return status.ok() ? status : status.with_context(step.name);
  }
  const KernelMemory memory{
      [this](BufferId id) { return address(id); }, options_.compute_type,
      dropout_keys_->as<const std::uint64_t>(step.layer * sizeof(std::uint64_t))};
  return launch(lowered_, step, memory, stream);
}

}  // namespace phub::nn::cuda
