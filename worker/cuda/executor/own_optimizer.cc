#include "worker/cuda/executor/own_optimizer.h"

#include <optional>
#include <string>

#include "common/base/check.h"

namespace phub::nn::cuda {
namespace {

// Nothing for rules that have no parameters. Sgd is momentum without any.
std::optional<kernels::cuda::LocalRule> local_rule(RuleKind kind) {
  switch (kind) {
    case RuleKind::kSgd:
    case RuleKind::kMomentum:
      return kernels::cuda::LocalRule::kMomentum;
    case RuleKind::kNesterov:
      return kernels::cuda::LocalRule::kNesterov;
    case RuleKind::kLars:
      return kernels::cuda::LocalRule::kLars;
    case RuleKind::kAdam:
      return kernels::cuda::LocalRule::kAdam;
    case RuleKind::kAdamW:
      return kernels::cuda::LocalRule::kAdamW;
    case RuleKind::kAdagrad:
      return kernels::cuda::LocalRule::kAdagrad;
    case RuleKind::kLamb:
      return kernels::cuda::LocalRule::kLamb;
    case RuleKind::kSum:
    case RuleKind::kMean:
      break;
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<OwnOptimizer>> OwnOptimizer::create(
    Runtime& runtime, const LoweredRunner& runner, std::span<const ParameterSpec> parameters,
    std::span<const std::vector<float>> initial, DataType gradient_type) {
  PHUB_CHECK(initial.size() == parameters.size(), "initial values for each parameter");
  std::unique_ptr<OwnOptimizer> own(new OwnOptimizer(runtime));
  PHUB_ASSIGN_OR_RETURN(own->plain_, PlainParameters::create(runtime, runner,
                                                             {.parameter = DataType::kFloat32,
                                                              .gradient = gradient_type}));
  for (std::size_t key = 0; key < initial.size(); ++key) {
    PHUB_CHECK(initial[key].size() == parameters[key].elements(), "a value for each element");
    PHUB_RETURN_IF_ERROR(copy_now(runtime, own->plain_->parameter(key), initial[key].data(),
                                  initial[key].size() * sizeof(float)));
  }
  PHUB_RETURN_IF_ERROR(own->make_tables(parameters, gradient_type));
  const KeyRange all{0, static_cast<std::uint32_t>(initial.size())};
  PHUB_RETURN_IF_ERROR(runtime.launch(own->plain_->load(all), Stream::kCompute));
  PHUB_RETURN_IF_ERROR(runtime.synchronise(Stream::kCompute));
  return own;
}

Status OwnOptimizer::make_tables(std::span<const ParameterSpec> parameters,
                                 DataType gradient_type) {
  std::int64_t elements = 0;
  for (std::size_t key = 0; key < parameters.size(); ++key) elements += plain_->elements(key);
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  PHUB_ASSIGN_OR_RETURN(velocities_, runtime_.device_memory(bytes, "the optimizer's state"));
  std::vector<kernels::cuda::OptimizedTensor>& tensors = table_;
  auto* velocity = velocities_->as<float>();
  for (std::size_t key = 0; key < parameters.size(); ++key) {
    tensors.push_back({.weights = static_cast<float*>(plain_->parameter(key)),
                       .velocity = velocity,
                       .gradient = plain_->gradient(key),
                       .elements = plain_->elements(key),
                       .gradient_type = gradient_type,
                       .decays = parameters[key].decays()});
    velocity += plain_->elements(key);
  }
  const std::size_t table = tensors.size() * sizeof(tensors.front());
  const std::string what = "the optimizer's tables";
  PHUB_ASSIGN_OR_RETURN(tensors_, runtime_.device_memory(table, what));
  PHUB_RETURN_IF_ERROR(copy_now(runtime_, tensors_->address, tensors.data(), table));
  const auto chunks = static_cast<std::size_t>(plain_->chunk_count());
  PHUB_ASSIGN_OR_RETURN(squares_, runtime_.device_memory(2 * chunks * sizeof(double), what));
  PHUB_ASSIGN_OR_RETURN(trust_, runtime_.device_memory(tensors.size() * sizeof(float), what));
  PHUB_ASSIGN_OR_RETURN(updates_, runtime_.device_memory(sizeof(std::int64_t), what));
  PHUB_ASSIGN_OR_RETURN(factors_, runtime_.device_memory(sizeof(kernels::AdaptiveStep), what));
  return {};
}

Status OwnOptimizer::add_squares() {
  if (means_of_squares_) return {};
  PHUB_ASSIGN_OR_RETURN(means_of_squares_,
                        runtime_.device_memory(velocities_->bytes, "the optimizer's state"));
  auto* squares = means_of_squares_->as<float>();
  for (kernels::cuda::OptimizedTensor& tensor : table_) {
    tensor.squares = squares;
    squares += tensor.elements;
  }
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(Stream::kCompute));
  return copy_now(runtime_, tensors_->address, table_.data(),
                  table_.size() * sizeof(table_.front()));
}

Status OwnOptimizer::update(const OwnRule& rule, int* not_finite) {
  PHUB_RETURN_IF_ERROR(publish(not_finite));
  return apply(rule, not_finite);
}

Status OwnOptimizer::publish(int* not_finite) {
  const KeyRange all{0, static_cast<std::uint32_t>(plain_->keys())};
  return runtime_.launch(plain_->publish(all, not_finite), Stream::kCompute);
}

Status OwnOptimizer::apply(const OwnRule& rule, int* not_finite) {
  const auto local = local_rule(rule.kind);
  if (!local) {
    return {
        Code::kInvalidArgument,
        "the GPU's own optimizer has rules with parameters alone: use one of them, or a server"};
  }
  if (state_arrays(rule.kind) > 1) PHUB_RETURN_IF_ERROR(add_squares());
  AdaptiveOptions adaptive = rule.adaptive;
  if (adaptive.epsilon == 0.0) adaptive.epsilon = default_epsilon(rule.kind);
  const KeyRange all{0, static_cast<std::uint32_t>(plain_->keys())};
  const kernels::cuda::OptimizerStep step{
      .tensors = tensors_->as<kernels::cuda::OptimizedTensor>(),
      .chunks = plain_->chunks(),
      .chunk_count = plain_->chunk_count(),
      .tensor_count = static_cast<std::int64_t>(plain_->keys()),
      .rule = *local,
      .learning_rate = rule.learning_rate,
      .momentum = rule.kind == RuleKind::kSgd ? 0.0F : rule.momentum,
      .weight_decay = rule.weight_decay,
      .gradient_scale = rule.gradient_scale,
      .lars_coefficient = rule.lars.coefficient,
      .lars_epsilon = rule.lars.epsilon,
      .chunk_squares = squares_->as<double>(),
      .trust = trust_->as<float>(),
      .skip = not_finite,
      .adaptive = adaptive,
      .updates = updates_->as<std::int64_t>(),
      .factors = factors_->as<kernels::AdaptiveStep>()};
  PHUB_RETURN_IF_ERROR(runtime_.launch(step, Stream::kCompute));
  return runtime_.launch(plain_->load(all), Stream::kCompute);
}

}  // namespace phub::nn::cuda
