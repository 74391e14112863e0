#include "worker/cuda/planned/block_timer.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "worker/cuda/planned/device_timer.h"
#include "worker/cuda/planned/kernel_launch.h"

namespace phub::nn::cuda {
namespace {

struct Bound {
  const Step* step = nullptr;
  const CudnnPlan* plan = nullptr;  // of a GraphStep
  DescriptorPointer memory;
};

Status queue(const std::vector<Bound>& all, const Lowered& lowered, const KernelMemory& memory) {
  for (const Bound& bound : all) {
    PHUB_RETURN_IF_ERROR(bound.plan != nullptr ? bound.plan->execute(*bound.memory)
                                               : launch(lowered, *bound.step, memory, nullptr));
  }
  return {};
}

}  // namespace

Status BlockTimer::make_room(const Lowered& lowered) {
  plan_ = plan_memory(lowered, &Buffer::bytes);
  if (memory_ == nullptr || memory_->bytes < plan_.bytes) {
    memory_.reset();
    PHUB_ASSIGN_OR_RETURN(memory_, allocate(plan_.bytes, "measuring its blocks"));
  }
  if (dropout_keys_ == nullptr) {  // one stands for all: the time is the same
    PHUB_ASSIGN_OR_RETURN(dropout_keys_, allocate(sizeof(std::uint64_t), "dropout's keys"));
  }
  return {};
}

Status BlockTimer::measure_engines(const Lowered& lowered,
                                   const std::function<void(std::size_t, std::size_t)>& progress) {
  PHUB_RETURN_IF_ERROR(make_room(lowered));
  const auto graphs = different_graphs({&lowered.forward, &lowered.backward});
  Status first;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    progress(i, graphs.size());
    const auto plan = book_.plan(
        *graphs[i], [this](BufferId id) { return memory_->as<std::byte>(plan_.offsets[id]); });
    const bool is_told = plan || plan.error().code() == Code::kNotFound || !first.ok();
    if (!is_told) first = plan.error();
  }
  return first;
}

Result<double> BlockTimer::microseconds(const BlockWay& way) {
  if (way.steps.empty()) return 0.0;
  PHUB_RETURN_IF_ERROR(make_room(*way.lowered));
  const AddressOf address = [this](BufferId id) {
    return memory_->as<std::byte>(plan_.offsets[id]);
  };
  std::vector<Bound> all;
  std::int64_t room = 0;
  for (const Step* step : way.steps) {
    all.push_back({step, nullptr, nullptr});
    const auto* graph = std::get_if<GraphStep>(&step->work);
    if (graph == nullptr) continue;
    PHUB_ASSIGN_OR_RETURN(all.back().plan, book_.plan(*graph, address));
    room = std::max(room, all.back().plan->workspace_bytes());
  }
  // After the last engine was measured: those measurements use the workspace too.
  PHUB_ASSIGN_OR_RETURN(void* const workspace, book_.workspace(static_cast<std::size_t>(room)));
  for (Bound& bound : all) {
    if (bound.plan == nullptr) continue;
    const auto addresses = addresses_of(std::get<GraphStep>(bound.step->work), address);
    PHUB_ASSIGN_OR_RETURN(bound.memory, bound.plan->bind(addresses, workspace));
  }
  const KernelMemory memory{address, compute_type_, dropout_keys_->as<const std::uint64_t>(0)};
  return time_of(
      [&](std::size_t launches) {
        return device_microseconds([&] { return queue(all, *way.lowered, memory); }, launches,
                                   book_.target());
      },
      std::numeric_limits<double>::infinity());
}

}  // namespace phub::nn::cuda
