// The engine configurations that cuDNN proposes for a graph.
#include <cudnn_graph.h>

#include <algorithm>
#include <array>

#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/cudnn/wrong_engines.h"

namespace phub::nn::cuda {
namespace {

Result<EngineChoice> read_knobs(const CudnnLibrary& library, const CudnnDescriptor& configuration,
                                std::int64_t engine) {
  EngineChoice choice{engine, {}};
  PHUB_ASSIGN_OR_RETURN(const auto knobs,
                        get_descriptors(library, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                        CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
  for (const DescriptorPointer& knob : knobs) {
    std::array<cudnnBackendKnobType_t, 1> type = {};
    PHUB_ASSIGN_OR_RETURN(const std::int64_t types,
                          knob->get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                                    std::span<cudnnBackendKnobType_t>(type)));
    if (types != 1) return Status(Code::kInternal, "cuDNN: a knob without a type");
    PHUB_ASSIGN_OR_RETURN(const std::int64_t value,
                          knob->get_integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    choice.knobs.emplace_back(type[0], value);
  }
  return choice;
}

Result<EngineCandidate> read(const CudnnLibrary& library, const CudnnDescriptor& configuration) {
  PHUB_ASSIGN_OR_RETURN(const auto engines,
                        get_descriptors(library, configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                        CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  if (engines.size() != 1) return Status(Code::kInternal, "cuDNN: no engine in a configuration");
  const CudnnDescriptor& engine = *engines.front();
  PHUB_ASSIGN_OR_RETURN(const std::int64_t index,
                        engine.get_integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  EngineCandidate candidate;
  PHUB_ASSIGN_OR_RETURN(candidate.choice, read_knobs(library, configuration, index));
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes = {};
  PHUB_ASSIGN_OR_RETURN(const std::int64_t count,
                        engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                   std::span<cudnnBackendBehaviorNote_t>(notes)));
  candidate.compiled_at_run_time =
      std::count(notes.begin(), notes.begin() + count, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) > 0;
  return candidate;
}

// Adds those of one mode that are not there yet, but for engines that are known to be wrong. A mode
// that knows none may say so with an error.
Status append(const CudnnTarget& target, const OpGraph& graph, const CudnnGraph& built,
              cudnnBackendHeurMode_t mode, std::vector<EngineCandidate>& found) {
  const CudnnLibrary& library = target.library();
  CudnnDescriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, built.descriptor())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  target.name_in(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (const Status status = heuristics.finalize("heuristics"); !status.ok()) {
    return status.code() == Code::kNotFound ? Status() : status;
  }
  PHUB_ASSIGN_OR_RETURN(const auto configurations,
                        get_descriptors(library, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  for (const DescriptorPointer& configuration : configurations) {
    PHUB_ASSIGN_OR_RETURN(EngineCandidate candidate, read(library, *configuration));
    const bool known = std::any_of(found.begin(), found.end(), [&](const EngineCandidate& other) {
      return other.choice == candidate.choice;
    });
    if (!known && why_wrong(graph, candidate.choice).empty()) found.push_back(std::move(candidate));
  }
  return {};
}

}  // namespace

Result<std::vector<EngineCandidate>> candidates(const CudnnTarget& target, const OpGraph& graph,
                                                EngineSearch search) {
  std::vector<EngineCandidate> found;
  const Status status = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const auto built,
                          CudnnGraph::create(target.library(), graph, target.handle()));
    PHUB_RETURN_IF_ERROR(append(target, graph, *built, CUDNN_HEUR_MODE_A, found));
    if (search == EngineSearch::kQuick && !found.empty()) return {};
    const Status fallback = append(target, graph, *built, CUDNN_HEUR_MODE_FALLBACK, found);
    return found.empty() ? fallback : Status();
  }();
  if (!status.ok()) return status.with_context("cuDNN graph \"" + graph.name() + "\"");
  return found;
}

}  // namespace phub::nn::cuda
