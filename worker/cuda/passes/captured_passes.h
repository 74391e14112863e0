// Parts of passes that are queued again and again: from their second run on as captured graphs.
//
// Owned by DevicePasses; its thread. The runtime outlives it.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

class CapturedPasses {
 public:
  // `note` is told in a sentence that passes cannot be captured: then they are queued as before.
  CapturedPasses(Runtime& runtime, bool captures, std::function<void(std::string_view)> note)
      : runtime_(runtime), captures_(captures), note_(std::move(note)) {}

  // So many parts from now on. REQUIRES: before the pass's first run.
  void cut(Pass pass, std::size_t parts);
  // Queues a part of a run: by `work`, or as the graph that was captured of it.
  Status queue(Pass pass, std::size_t part, const std::function<Status()>& work);
  // All parts of a run are queued.
  void end_run(Pass pass) { runs(pass).is_first = false; }

 private:
  struct Runs {
    std::vector<CapturedGraphPointer> graphs;  // by part; null: not captured yet
    bool is_first = true;
  };

  Runs& runs(Pass pass) { return runs_[static_cast<std::size_t>(pass)]; }
  Result<CapturedGraphPointer> capture(const std::function<Status()>& work);

  Runtime& runtime_;
  bool captures_;
  const std::function<void(std::string_view)> note_;
  Runs runs_[kPasses];
};

}  // namespace phub::nn::cuda
