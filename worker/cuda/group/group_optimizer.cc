#include "worker/cuda/group/group_optimizer.h"

#include <utility>

namespace phub::nn::cuda {
namespace {

int* not_finite(DevicePasses& passes) { return passes.status().not_finite(StepStatus::kLossSlot); }

}  // namespace

Result<std::unique_ptr<GroupOptimizer>> GroupOptimizer::create(
    GpuRanks& gpus, std::span<const std::vector<float>> initial) {
  std::unique_ptr<GroupOptimizer> optimizer(new GroupOptimizer(gpus));
  PHUB_RETURN_IF_ERROR(gpus.each(
      [&](std::size_t, DevicePasses& passes) { return optimizer->prepare(passes, initial); }));
  return optimizer;
}

Status GroupOptimizer::prepare(DevicePasses& passes, std::span<const std::vector<float>> initial) {
  PHUB_ASSIGN_OR_RETURN(auto own, OwnOptimizer::create(passes.runtime(), passes.runner(),
                                                       passes.parameters(), initial, type_));
  const FiniteCheck::Array gradients{own->gradients().address,
                                     own->gradients().bytes / size_of(type_)};
  PHUB_ASSIGN_OR_RETURN(auto check, FiniteCheck::create(passes.runtime(), {&gradients, 1}, type_));
  own_.push_back(std::move(own));
  checks_.push_back(std::move(check));
  return {};
}

Status GroupOptimizer::update(const OwnRule& rule) {
  PHUB_RETURN_IF_ERROR(gpus_.each([&](std::size_t rank, DevicePasses& passes) {
    return own_[rank]->publish(not_finite(passes));
  }));
  std::vector<void*> gradients;
  for (const auto& own : own_) gradients.push_back(own->gradients().address);
  const std::size_t elements = own_.front()->gradients().bytes / size_of(type_);
  PHUB_RETURN_IF_ERROR(
      gpus_.ended_by(gpus_.collectives().all_reduce(gradients, elements, type_, Stream::kCompute)));
  return gpus_.each([&](std::size_t rank, DevicePasses& passes) -> Status {
    int* const flag = not_finite(passes);
    PHUB_RETURN_IF_ERROR(passes.runtime().launch(checks_[rank]->of(0, flag), Stream::kCompute));
    return own_[rank]->apply(rule, flag);
  });
}

}  // namespace phub::nn::cuda
