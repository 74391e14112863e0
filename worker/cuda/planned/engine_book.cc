#include "worker/cuda/planned/engine_book.h"

#include <algorithm>
#include <span>
#include <utility>

#include "worker/cuda/planned/device_timer.h"

namespace phub::nn::cuda {
namespace {

std::string context(const OpGraph& graph) { return "cuDNN graph \"" + graph.name() + "\""; }

}  // namespace

std::vector<void*> addresses_of(const GraphStep& step, const AddressOf& address) {
  std::vector<void*> addresses;
  for (const BufferId id : step.buffers) addresses.push_back(address(id));
  return addresses;
}

Result<const CudnnPlan*> EngineBook::plan(const GraphStep& step, const AddressOf& address) {
  PlanPointer& plan = plans_[step.graph.key()];
  if (plan != nullptr) return static_cast<const CudnnPlan*>(plan.get());
  PHUB_ASSIGN_OR_RETURN(plan, known(step.graph));
  if (plan == nullptr) {
    PHUB_ASSIGN_OR_RETURN(plan, options_.tune ? fastest(step, address) : first(step.graph));
  }
  return static_cast<const CudnnPlan*>(plan.get());
}

Status EngineBook::supports(const OpGraph& graph) {
  const std::string key = graph.key();
  if (plans_[key] != nullptr || cache_.find(key)) return {};
  const auto [place, is_new] = supported_.try_emplace(key);
  if (!is_new) return place->second;
  if (options_.tune) {
    // That heuristics list engines does not say that one of them can be planned.
    const auto found = candidates(target_, graph, EngineSearch::kThorough);
    if (!found) return place->second = found.error();
    const auto plan = plan_first(target_, graph, *found, options_.workspace_limit);
    if (!plan) place->second = plan.error();
    return place->second;
  }
  auto plan = first(graph);
  if (!plan) return place->second = plan.error();
  plans_[key] = std::move(*plan);
  return {};
}

// Null where the cache knows none, or one that does not do any more.
Result<EngineBook::PlanPointer> EngineBook::known(const OpGraph& graph) const {
  const auto measured = cache_.find(graph.key());
  if (!measured) return PlanPointer();
  auto plan = CudnnPlan::create(target_, graph, measured->choice);
  if (plan && (*plan)->workspace_bytes() <= options_.workspace_limit) return plan;
  options_.note(context(graph) + ": engine " + std::to_string(measured->choice.engine) +
                " of the cache is not used: " +
                (plan ? std::string("its workspace is above the limit") : plan.error().message()));
  return PlanPointer();
}

Result<EngineBook::PlanPointer> EngineBook::first(const OpGraph& graph) const {
  PHUB_ASSIGN_OR_RETURN(const auto quick, candidates(target_, graph, EngineSearch::kQuick));
  auto plan = plan_first(target_, graph, quick, options_.workspace_limit);
  if (plan) return plan;
  PHUB_ASSIGN_OR_RETURN(const auto all, candidates(target_, graph, EngineSearch::kThorough));
  if (all.size() == quick.size()) return plan;
  return plan_first(target_, graph, all, options_.workspace_limit);
}

Result<EngineBook::PlanPointer> EngineBook::fastest(const GraphStep& step,
                                                    const AddressOf& address) {
  const OpGraph& graph = step.graph;
  PHUB_ASSIGN_OR_RETURN(const auto found, candidates(target_, graph, EngineSearch::kThorough));
  PHUB_ASSIGN_OR_RETURN(const auto sets, buffers_.sets(step, addresses_of(step, address)));
  const TuneOptions tuned;
  std::vector<PlannedEngine> ahead;
  if (options_.planner != nullptr) {
    ahead = options_.planner->plan(
        graph, std::span(found).first(std::min(found.size(), tuned.candidates)));
  }
  const auto plan = [&](const EngineChoice& choice) -> Result<TimedRun> {
    const auto made = std::find_if(ahead.begin(), ahead.end(), [&](const PlannedEngine& engine) {
      return engine.choice == choice && (engine.plan != nullptr || !engine.why.ok());
    });
    if (made != ahead.end()) return timed(*made, sets);
    PlannedEngine engine{.choice = choice, .target = &target_};
    PHUB_ASSIGN_OR_RETURN(engine.plan, CudnnPlan::create(target_, graph, choice));
    return timed(engine, sets);
  };
  const Tuning tuning = find_fastest(found, plan, tuned);
  if (!tuning.best) return tuning.error().with_context(context(graph));
  ++tuned_;
  remember(graph, tuning);
  return CudnnPlan::create(target_, graph, tuning.best->choice);
}

void EngineBook::remember(const OpGraph& graph, const Tuning& tuning) {
  if (const std::string complaint = tuning.complaint(); !complaint.empty()) {
    options_.note(context(graph) + ": " + complaint);
  }
  const Status kept = cache_.add(graph.key(), *tuning.best);
  // The choice is good for this run.
  if (!kept.ok() && !std::exchange(told_cache_, true)) {
    options_.note("what is measured is lost with this run: " + kept.message());
  }
}

Result<void*> EngineBook::workspace(std::size_t bytes) {
  if (workspace_ == nullptr || workspace_->bytes < bytes) {
    workspace_.reset();
    PHUB_ASSIGN_OR_RETURN(workspace_, allocate(bytes, "cuDNN's workspace"));
  }
  return workspace_->address;
}

Result<TimedRun> EngineBook::timed(const PlannedEngine& engine,
                                   const std::vector<std::vector<void*>>& sets) {
  if (engine.plan == nullptr) return engine.why;
  if (engine.plan->workspace_bytes() > options_.workspace_limit) {
    return Status(Code::kNotFound, "its workspace is above the limit");
  }
  PHUB_ASSIGN_OR_RETURN(void* const room,
                        workspace(static_cast<std::size_t>(engine.plan->workspace_bytes())));
  std::vector<std::shared_ptr<const CudnnDescriptor>> bound;
  for (const auto& addresses : sets) {
    PHUB_ASSIGN_OR_RETURN(auto binding, engine.plan->bind(addresses, room));
    bound.push_back(std::move(binding));
  }
  const auto run = [plan = engine.plan, target = engine.target, bound,
                    next = std::size_t{0}](std::size_t launches) mutable {
    const auto queue = [&] { return plan->execute(*bound[next++ % bound.size()]); };
    return device_microseconds(queue, launches, *target);
  };
  return TimedRun(run);
}

}  // namespace phub::nn::cuda
