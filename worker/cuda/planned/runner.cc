#include "worker/cuda/planned/runner.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "worker/cuda/planned/block_timer.h"
#include "worker/cuda/planned/device_timer.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<PlannedRunner>> PlannedRunner::create(const CudaRuntime& runtime,
                                                             const Graph& graph,
                                                             const PlannedRunnerOptions& options) {
  std::unique_ptr<PlannedRunner> runner(new PlannedRunner(runtime));
  PHUB_ASSIGN_OR_RETURN(runner->library_, CudnnLibrary::open(options.libraries));
  PHUB_ASSIGN_OR_RETURN(runner->target_, CudnnTarget::current_device(*runner->library_));
  PHUB_ASSIGN_OR_RETURN(
      EngineCache cache,
      EngineCache::open(options.engine_cache,
                        {.cudnn_version = static_cast<std::int64_t>(runner->library_->version()),
                         .device = runtime.device_name()},
                        committed_engines()));
  runner->cache_ = std::make_unique<EngineCache>(std::move(cache));
  if (options.tune) PHUB_RETURN_IF_ERROR(runner->make_planner(options));
  runner->book_ = std::make_unique<EngineBook>(
      *runner->target_, *runner->cache_,
      EngineBookOptions{
          .tune = options.tune, .planner = runner->planner_.get(), .note = options.note});
  PHUB_ASSIGN_OR_RETURN(Lowered lowered, runner->lower_with(graph, options));
  runner->book_->free_workspace();  // what blocks were timed with; the network's memory comes next
  PHUB_ASSIGN_OR_RETURN(runner->network_,
                        PlannedNetwork::create(*runner->book_, std::move(lowered),
                                               {.compute_type = options.lowering.compute_type,
                                                .progress = options.progress}));
  runner->book_->end_measuring();
  runner->planner_.reset();
  return runner;
}

// A tuner's: its threads have handles of their own.
Status PlannedRunner::make_planner(const PlannedRunnerOptions& options) {
  const std::size_t all = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t threads = std::min<std::size_t>(
      TuneOptions{}.candidates, options.plan_threads == 0 ? all : options.plan_threads);
  if (threads == 1) return {};
  int device = 0;
  PHUB_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "the device"));
  PHUB_ASSIGN_OR_RETURN(
      planner_,
      ConcurrentPlanner::create(
          {.threads = threads,
           .make_target = [this] { return CudnnTarget::current_device(*library_); },
           .begin_thread =
               [device] { return cuda_status(cudaSetDevice(device), "a planner's device"); }}));
  return {};
}

Result<Lowered> PlannedRunner::lower_with(const Graph& graph, const PlannedRunnerOptions& options) {
  if (options.chosen != nullptr) return *options.chosen;
  if (options.fusion == Fusion::kUnfused) {
    LoweringOptions unfused = options.lowering;
    unfused.fuse = false;
    return lower(graph, unfused);
  }
  BlockTimer timer(*book_, options.lowering.compute_type);  // its memory goes with it
  const JudgeOptions judging{.fusion = options.fusion, .tune = options.tune, .note = options.note};
  PHUB_ASSIGN_OR_RETURN(Lowered fused, lower(graph, options.lowering));
  if (options.tune) {
    const Status measured = timer.measure_engines(fused, options.progress);
    if (!measured.ok()) options.note(measured.message());
  }
  if (fuses_all(timer, *cache_, judging, fused)) return fused;
  const BlockJudge judge = make_judge(timer, *cache_, judging);
  PHUB_ASSIGN_OR_RETURN(ChosenLowering chosen,
                        choose_fusion(graph, options.lowering, judge, options.progress));
  unfused_blocks_ = chosen.unfused.size();
  return std::move(chosen.lowered);
}

DataType PlannedRunner::type_of(BufferId id) const {
  switch (lowered().buffer(id).type) {
    case ElementType::kFloat16:
      return DataType::kFloat16;
    case ElementType::kBfloat16:
      return DataType::kBfloat16;
    case ElementType::kFloat32:
      return DataType::kFloat32;
    case ElementType::kInt8:
      break;
  }
  PHUB_CHECK(false, "a buffer of indices has no such type");
  return DataType::kFloat32;
}

Result<std::vector<double>> PlannedRunner::time(Pass pass) {
  const cudaStream_t stream = runtime_.cuda_stream(Stream::kCompute);
  const std::size_t steps = steps_of(lowered(), pass).size();
  std::vector<TimerEvent> events;
  for (std::size_t i = 0; i <= steps; ++i) {
    cudaEvent_t event = nullptr;
    PHUB_RETURN_IF_ERROR(cuda_status(cudaEventCreate(&event), "a timer"));
    events.emplace_back(event);
  }
  PHUB_RETURN_IF_ERROR(cuda_status(cudaEventRecord(events[0].get(), stream), "a timer"));
  for (std::size_t i = 0; i < steps; ++i) {
    PHUB_RETURN_IF_ERROR(run(pass, i, i + 1));
    PHUB_RETURN_IF_ERROR(cuda_status(cudaEventRecord(events[i + 1].get(), stream), "a timer"));
  }
  PHUB_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(events.back().get()), "a pass"));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < steps; ++i) {
    float milliseconds = 0.0F;
    PHUB_RETURN_IF_ERROR(cuda_status(
        cudaEventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get()), "a timer"));
    seconds.push_back(static_cast<double>(milliseconds) / 1000.0);
  }
  return seconds;
}

}  // namespace phub::nn::cuda
