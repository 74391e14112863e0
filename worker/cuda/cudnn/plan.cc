#include "worker/cuda/cudnn/plan.h"

#include <cudnn_graph.h>

#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "worker/cuda/cudnn/wrong_engines.h"

namespace phub::nn::cuda {
namespace {

std::string context(const OpGraph& graph) { return "cuDNN graph \"" + graph.name() + "\""; }

Result<DescriptorPointer> make_engine(const CudnnTarget& target, const CudnnGraph& graph,
                                      std::int64_t index) {
  auto engine =
      std::make_unique<CudnnDescriptor>(target.library(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor())
      .integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index);
  target.name_in(*engine, CUDNN_ATTR_ENGINE_DEVICEPROP);
  PHUB_RETURN_IF_ERROR(engine->finalize("engine " + std::to_string(index)));
  return engine;
}

Result<std::vector<DescriptorPointer>> make_knobs(const CudnnLibrary& library,
                                                  const EngineChoice& choice) {
  std::vector<DescriptorPointer> knobs;
  for (const auto& [type, value] : choice.knobs) {
    auto knob = std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob->set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
              static_cast<cudnnBackendKnobType_t>(type))
        .integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    PHUB_RETURN_IF_ERROR(knob->finalize("knob " + std::to_string(type)));
    knobs.push_back(std::move(knob));
  }
  return knobs;
}

}  // namespace

Result<std::unique_ptr<CudnnPlan>> CudnnPlan::create(const CudnnTarget& target,
                                                     const OpGraph& graph,
                                                     const EngineChoice& choice) {
  const CudnnLibrary& library = target.library();
  if (const std::string_view wrong = why_wrong(graph, choice); !wrong.empty()) {
    return Status(Code::kNotFound, context(graph) + ": " + std::string(wrong));
  }
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan(target));
  plan->name_ = context(graph);
  plan->choice_ = choice;
  for (OperandId id = 0; id < graph.operands().size(); ++id) {
    const Operand& operand = graph.operand(id);
    if (operand.storage == Storage::kDevice) plan->device_ids_.push_back(unique_id(id));
    if (operand.storage != Storage::kConstant) continue;
    plan->constant_ids_.push_back(unique_id(id));
    plan->constants_.push_back(operand.constant);
  }
  const Status status = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(plan->graph_, CudnnGraph::create(library, graph, target.handle()));
    PHUB_ASSIGN_OR_RETURN(plan->engine_, make_engine(target, *plan->graph_, choice.engine));
    PHUB_ASSIGN_OR_RETURN(plan->knobs_, make_knobs(library, choice));
    std::vector<cudnnBackendDescriptor_t> knobs;
    for (const auto& knob : plan->knobs_) knobs.push_back(knob->raw());
    plan->configuration_ =
        std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    plan->configuration_->descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, *plan->engine_);
    if (!knobs.empty()) {
      plan->configuration_->descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
    }
    PHUB_RETURN_IF_ERROR(plan->configuration_->finalize("configuration"));
    plan->plan_ =
        std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->plan_->descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *plan->configuration_);
    target.name_in(*plan->plan_, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    if (target.handle() != nullptr) {
      plan->plan_->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle());
    }
    PHUB_RETURN_IF_ERROR(plan->plan_->finalize("plan"));
    PHUB_ASSIGN_OR_RETURN(plan->workspace_bytes_,
                          plan->plan_->get_integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    return {};
  }();
  if (!status.ok()) return status.with_context(plan->name_);
  return plan;
}

Result<DescriptorPointer> CudnnPlan::bind(std::span<void* const> operands, void* workspace) const {
  PHUB_CHECK(operands.size() == device_ids_.size(), "memory for each device operand");
  std::vector<std::int64_t> ids = device_ids_;
  std::vector<void*> pointers(operands.begin(), operands.end());
  for (std::size_t i = 0; i < constant_ids_.size(); ++i) {
    ids.push_back(constant_ids_[i]);
    // cuDNN takes mutable pointers also for what it only reads.
    pointers.push_back(const_cast<float*>(&constants_[i]));
  }
  auto pack =
      std::make_unique<CudnnDescriptor>(target_.library(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack->integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(pointers.size()), pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  PHUB_RETURN_IF_ERROR(pack->finalize(name_));
  return pack;
}

Status CudnnPlan::execute(const CudnnDescriptor& bound) const {
  const CudnnLibrary& library = target_.library();
  return library.status(library->execute(target_.handle(), plan_->raw(), bound.raw()), name_);
}

Result<std::unique_ptr<CudnnPlan>> plan_first(const CudnnTarget& target, const OpGraph& graph,
                                              std::span<const EngineCandidate> candidates,
                                              std::int64_t workspace_limit) {
  Status first(Code::kNotFound,
               "no engine of cuDNN " + std::to_string(target.library().version()) + " takes it");
  bool told = false;
  for (const EngineCandidate& candidate : candidates) {
    auto plan = CudnnPlan::create(target, graph, candidate.choice);
    if (plan && (*plan)->workspace_bytes() <= workspace_limit) return plan;
    if (told) continue;
    told = true;
    first = plan ? Status(Code::kResourceExhausted,
                          "its workspace of " + std::to_string((*plan)->workspace_bytes()) +
                              " bytes is above the limit of " + std::to_string(workspace_limit))
                 : plan.error();
  }
  return first.with_context(context(graph) + ", " + std::to_string(candidates.size()) +
                            " engine configurations");
}

}  // namespace phub::nn::cuda
