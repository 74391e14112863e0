// From an operation graph to something that runs: heuristics, a choice of engine, a plan.
//
// Functions and objects of the backend's thread. Errors carry the graph's name; kNotFound means
// that no engine takes the graph.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/operation_graph.h"
#include "worker/cuda/cudnn/target.h"
#include "worker/cuda/tuning/engine_choice.h"

namespace phub::nn::cuda {

enum class EngineSearch {
  kQuick,     // what the heuristics think; the fallbacks only if they think nothing
  kThorough,  // both, for autotuning
};

// Best first. Empty: no engine takes the graph.
Result<std::vector<EngineCandidate>> candidates(const CudnnTarget& target, const OpGraph& graph,
                                                EngineSearch search);

class CudnnPlan {
 public:
  static Result<std::unique_ptr<CudnnPlan>> create(const CudnnTarget& target, const OpGraph& graph,
                                                   const EngineChoice& choice);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  const EngineChoice& choice() const { return choice_; }

  // Device memory of each kDevice operand, in their order; constants come from the graph. A plan
  // may have several of these, on other memory. REQUIRES: a target with a handle, at execution.
  Result<DescriptorPointer> bind(std::span<void* const> operands, void* workspace) const;
  // Queues the work on the handle's stream.
  Status execute(const CudnnDescriptor& bound) const;

 private:
  explicit CudnnPlan(const CudnnTarget& target) : target_(target) {}

  const CudnnTarget& target_;
  std::string name_;
  EngineChoice choice_;
  std::unique_ptr<CudnnGraph> graph_;
  DescriptorPointer engine_, configuration_, plan_;
  std::vector<DescriptorPointer> knobs_;
  std::int64_t workspace_bytes_ = 0;
  std::vector<std::int64_t> device_ids_;
  std::vector<std::int64_t> constant_ids_;
  std::vector<float> constants_;  // never resized after create: bindings point into it
};

// The first of `candidates` that can be planned with at most `workspace_limit` bytes.
Result<std::unique_ptr<CudnnPlan>> plan_first(const CudnnTarget& target, const OpGraph& graph,
                                              std::span<const EngineCandidate> candidates,
                                              std::int64_t workspace_limit);

}  // namespace phub::nn::cuda
