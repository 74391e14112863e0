#include "worker/cuda/executor/parameter_exchange.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace phub::nn::cuda {
namespace {

// Of the host's arrays.
std::size_t parameter_of(std::size_t key) { return key; }
std::size_t gradient_of(std::size_t key, std::size_t keys) { return keys + key; }

}  // namespace

Result<std::unique_ptr<ParameterExchange>> ParameterExchange::create(
    Runtime& runtime, const LoweredRunner& runner, const ExchangeArrays& where,
    std::span<const TypedBinding> bindings, const std::function<void(std::string_view)>& note) {
  const DataType type = where.type;
  std::unique_ptr<ParameterExchange> exchange(new ParameterExchange(runtime));
  exchange->gradients_ = where.gradients;
  PlainTypes types{type, type};
  for (const TypedBinding& binding : bindings) {
    if (where.gradients == GradientsAt::kDevice) types.gradients.push_back(binding.gradient.data());
  }
  PHUB_ASSIGN_OR_RETURN(exchange->plain_, PlainParameters::create(runtime, runner, types));
  std::vector<HostArray> arrays;
  for (std::size_t key = 0; key < bindings.size(); ++key) {
    const auto bytes = static_cast<std::size_t>(exchange->plain_->elements(key)) * size_of(type);
    const TypedBinding& binding = bindings[key];
    if (binding.parameter.size() != bytes || binding.gradient.size() != bytes) {
      const std::string& name = runner.lowered().parameters[key].name;
      return Status(Code::kInvalidArgument, "parameter " + name + " has " +
                                                std::to_string(exchange->plain_->elements(key)) +
                                                " elements: bind it to as many");
    }
    // Pinned as it is; nothing writes to it.
    auto* parameter = const_cast<std::byte*>(binding.parameter.data());
    arrays.push_back({{parameter, binding.parameter.size()}, true});
  }
  if (where.gradients == GradientsAt::kHost) {
    for (const TypedBinding& binding : bindings) arrays.push_back({binding.gradient, false});
  }
  PHUB_ASSIGN_OR_RETURN(exchange->host_, HostArrays::create(runtime, std::move(arrays), note));
  return exchange;
}

Status ParameterExchange::upload(const KeyRange& keys) {
  for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) {
    const std::size_t array = parameter_of(key);
    host_->to_device_side(array);
    PHUB_RETURN_IF_ERROR(runtime_.copy(plain_->parameter(key), host_->address(array),
                                       host_->bytes(array), Stream::kUpload));
  }
  return runtime_.launch(plain_->load(keys), Stream::kUpload);
}

Status ParameterExchange::download(const KeyRange& keys, int* not_finite) {
  PHUB_RETURN_IF_ERROR(runtime_.launch(plain_->publish(keys, not_finite), Stream::kDownload));
  if (gradients_ == GradientsAt::kDevice) return {};
  for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) {
    const std::size_t array = gradient_of(key, plain_->keys());
    PHUB_RETURN_IF_ERROR(runtime_.copy(host_->address(array), plain_->gradient(key),
                                       host_->bytes(array), Stream::kDownload));
  }
  return {};
}

void ParameterExchange::arrived(const KeyRange& keys) {
  if (gradients_ == GradientsAt::kDevice) return;
  for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) {
    host_->from_device_side(gradient_of(key, plain_->keys()));
  }
}

}  // namespace phub::nn::cuda
