#include "worker/cuda/passes/captured_passes.h"

namespace phub::nn::cuda {

void CapturedPasses::cut(Pass pass, std::size_t parts) {
  runs(pass).graphs.clear();
  runs(pass).graphs.resize(parts);
}

Status CapturedPasses::queue(Pass pass, std::size_t part, const std::function<Status()>& work) {
  // Libraries load and set up kernels when they are first run, which cannot be captured.
  if (!captures_ || runs(pass).is_first) return work();
  CapturedGraphPointer& graph = runs(pass).graphs[part];
  if (graph == nullptr) {
    auto made = capture(work);
    if (!made) {
      captures_ = false;
      note_("passes are queued kernel by kernel, as they cannot be captured: " +
            made.error().message());
      return work();
    }
    graph = std::move(*made);
  }
  return runtime_.launch(*graph);
}

Result<CapturedGraphPointer> CapturedPasses::capture(const std::function<Status()>& work) {
  PHUB_RETURN_IF_ERROR(runtime_.begin_capture());
  const Status queued = work();
  auto graph = runtime_.end_capture();  // also when something failed: it ends the capture
  if (!queued.ok()) return queued;
  return graph;
}

}  // namespace phub::nn::cuda
