#include "worker/nn/cuda/planned_network.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "kernels/cuda/network_kernels.h"
#include "worker/nn/cuda/device_timer.h"
#include "worker/nn/cuda/kernel_arguments.h"
#include "worker/nn/dropout.h"

namespace phub::nn::cuda {
namespace {

struct Launch {
  cudaStream_t stream;

  template <typename Arguments>
  cudaError_t operator()(const Arguments& arguments) const {
    return kernels::cuda::run(arguments, stream);
  }
  cudaError_t operator()(const kernels::cuda::Subsample& arguments) const {
    return kernels::cuda::run_forward(arguments, stream);
  }
  cudaError_t operator()(const SubsampleBackward& backward) const {
    return kernels::cuda::run_backward(backward.arguments, stream);
  }
  cudaError_t operator()(const KeepStatistics& keep) const {
    const std::size_t bytes = static_cast<std::size_t>(keep.channels) * sizeof(float);
    const cudaError_t first =
        cudaMemcpyAsync(keep.mean, keep.next_mean, bytes, cudaMemcpyDeviceToDevice, stream);
    if (first != cudaSuccess) return first;
    return cudaMemcpyAsync(keep.variance, keep.next_variance, bytes, cudaMemcpyDeviceToDevice,
                           stream);
  }
};

}  // namespace

Result<std::unique_ptr<PlannedNetwork>> PlannedNetwork::create(CudnnTarget& target, Lowered lowered,
                                                               EngineCache& cache,
                                                               const PlanOptions& options) {
  std::unique_ptr<PlannedNetwork> network(new PlannedNetwork(target, std::move(lowered), options));
  PHUB_RETURN_IF_ERROR(network->prepare(cache));
  return network;
}

Status PlannedNetwork::prepare(EngineCache& cache) {
  plan_ = plan_memory(lowered_, &Buffer::bytes);
  const std::string what =
      "activations, gradients and parameters (a smaller train.batch needs less)";
  PHUB_ASSIGN_OR_RETURN(memory_, DeviceMemory::allocate(plan_.bytes, what));
  PHUB_RETURN_IF_ERROR(plan_graphs(cache));
  if (tuned_ > 0) PHUB_RETURN_IF_ERROR(memory_->clear(what));
  std::int64_t workspace = 0;
  for (const auto& [key, plan] : plans_) workspace = std::max(workspace, plan->workspace_bytes());
  workspace_.reset();  // that of measurements
  PHUB_ASSIGN_OR_RETURN(
      workspace_, DeviceMemory::allocate(static_cast<std::size_t>(workspace), "cuDNN's workspace"));
  PHUB_ASSIGN_OR_RETURN(
      dropout_keys_,
      DeviceMemory::allocate(lowered_.layers.size() * sizeof(std::uint64_t), "dropout's keys"));
  std::vector<float> initial;
  for (const StateLayout& state : lowered_.states) {
    initial.assign(static_cast<std::size_t>(state.channels), state.initial);
    PHUB_RETURN_IF_ERROR(
        cuda_status(cudaMemcpy(address(state.buffer), initial.data(),
                               initial.size() * sizeof(float), cudaMemcpyHostToDevice),
                    state.name));
  }
  PHUB_ASSIGN_OR_RETURN(forward_, bind(lowered_.forward));
  PHUB_ASSIGN_OR_RETURN(backward_, bind(lowered_.backward));
  PHUB_ASSIGN_OR_RETURN(inference_, bind(lowered_.inference));
  return {};
}

Status PlannedNetwork::plan_graphs(EngineCache& cache) {
  std::vector<const GraphStep*> different;
  for (const auto* steps : {&lowered_.forward, &lowered_.backward, &lowered_.inference}) {
    for (const Step& step : *steps) {
      const auto* graph = std::get_if<GraphStep>(&step.work);
      if (graph != nullptr && plans_.try_emplace(graph->graph.key()).second) {
        different.push_back(graph);
      }
    }
  }
  for (std::size_t i = 0; i < different.size(); ++i) {
    options_.progress(i, different.size());
    PHUB_ASSIGN_OR_RETURN(plans_[different[i]->graph.key()], make_plan(*different[i], cache));
  }
  return {};
}

Result<std::unique_ptr<CudnnPlan>> PlannedNetwork::make_plan(const GraphStep& step,
                                                             EngineCache& cache) {
  const OpGraph& graph = step.graph;
  const auto known = cache.find(graph.key());
  if (known) {
    auto plan = CudnnPlan::create(target_, graph, known->choice);
    if (plan && (*plan)->workspace_bytes() <= options_.workspace_limit) return plan;
  }
  PHUB_ASSIGN_OR_RETURN(const auto found, candidates(target_, graph, Search::kThorough));
  if (!options_.tune) return plan_first(target_, graph, found, options_.workspace_limit);
  const auto fastest =
      find_fastest(found, [&](const EngineChoice& choice) { return timed(step, choice); });
  if (!fastest) return fastest.error().with_context("cuDNN graph \"" + graph.name() + "\"");
  ++tuned_;
  // Not worth ending for: the choice is good for this run.
  static_cast<void>(cache.add(graph.key(), *fastest));
  return CudnnPlan::create(target_, graph, fastest->choice);
}

std::vector<void*> PlannedNetwork::addresses_of(const GraphStep& step) const {
  std::vector<void*> addresses;
  for (const BufferId id : step.buffers) addresses.push_back(address(id));
  return addresses;
}

Result<TimedRun> PlannedNetwork::timed(const GraphStep& step, const EngineChoice& choice) {
  PHUB_ASSIGN_OR_RETURN(auto made, CudnnPlan::create(target_, step.graph, choice));
  const std::shared_ptr<const CudnnPlan> plan = std::move(made);
  if (plan->workspace_bytes() > options_.workspace_limit) {
    return Status(Code::kResourceExhausted, "its workspace is above the limit");
  }
  const auto bytes = static_cast<std::size_t>(plan->workspace_bytes());
  if (workspace_ == nullptr || workspace_->bytes() < bytes) {
    workspace_.reset();
    PHUB_ASSIGN_OR_RETURN(workspace_, DeviceMemory::allocate(bytes, "cuDNN's workspace"));
  }
  PHUB_ASSIGN_OR_RETURN(auto binding, plan->bind(addresses_of(step), workspace_->at(0)));
  const std::shared_ptr<const CudnnDescriptor> bound = std::move(binding);
  return TimedRun([this, plan, bound] {
    return device_microseconds([&] { return plan->execute(*bound); }, target_);
  });
}

Result<std::vector<PlannedNetwork::Runnable>> PlannedNetwork::bind(
    const std::vector<Step>& steps) const {
  std::vector<Runnable> bound;
  for (const Step& step : steps) {
    bound.push_back({&step, nullptr, nullptr});
    const auto* graph = std::get_if<GraphStep>(&step.work);
    if (graph == nullptr) continue;
    bound.back().plan = plans_.at(graph->graph.key()).get();
    PHUB_ASSIGN_OR_RETURN(bound.back().bound,
                          bound.back().plan->bind(addresses_of(*graph), workspace_->at(0)));
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
      cudaMemcpyAsync(dropout_keys_->at(0), keys.data(), keys.size() * sizeof(std::uint64_t),
                      cudaMemcpyHostToDevice, stream),
      "dropout's keys"));
  return cuda_status(cudaStreamSynchronize(stream), "dropout's keys");
}

std::vector<PlannedNetwork::Runnable>& PlannedNetwork::runnables(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return forward_;
    case Pass::kBackward:
      return backward_;
    case Pass::kInference:
      break;
  }
  return inference_;
}

Status PlannedNetwork::run(Pass pass, cudaStream_t stream) {
  return run(pass, 0, runnables(pass).size(), stream);
}

Status PlannedNetwork::run(Pass pass, std::size_t first, std::size_t last, cudaStream_t stream) {
  PHUB_RETURN_IF_ERROR(target_.set_stream(stream));
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
      static_cast<const std::uint64_t*>(dropout_keys_->at(step.layer * sizeof(std::uint64_t)))};
  const auto arguments = arguments_of(lowered_, std::get<KernelStep>(step.work), memory);
  return cuda_status(std::visit(Launch{stream}, arguments), step.name);
}

}  // namespace phub::nn::cuda
