#include "worker/cuda/executor/parameter_exchange.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace phub::nn::cuda {
namespace {

// Of the host's arrays.
std::size_t parameter_of(std::size_t key) { return key; }
std::size_t gradient_of(std::size_t key, std::size_t keys) { return keys + key; }

}  // namespace

Result<std::unique_ptr<ParameterExchange>> ParameterExchange::create(
    Runtime& runtime, const LoweredRunner& runner, const TypedBindings& bindings,
    const std::function<void(std::string_view)>& note) {
  std::unique_ptr<ParameterExchange> exchange(new ParameterExchange(runtime));
  exchange->exported_ = bindings.exported;
  PlainTypes types{bindings.type, bindings.type};
  std::vector<HostArray> parameters, gradients;
  for (const TypedBinding& binding : bindings.keys) {
    // Pinned as it is; nothing writes to it.
    auto* parameter = const_cast<std::byte*>(binding.parameter.data());
    parameters.push_back({{parameter, binding.parameter.size()}, true});
    if (bindings.exported != nullptr) {
      types.gradients.push_back(binding.gradient.data());
    } else {
      gradients.push_back({binding.gradient, false});
    }
  }
  PHUB_ASSIGN_OR_RETURN(exchange->plain_, PlainParameters::create(runtime, runner, types));
  parameters.insert(parameters.end(), gradients.begin(), gradients.end());
  PHUB_ASSIGN_OR_RETURN(exchange->host_, HostArrays::create(runtime, std::move(parameters), note));
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
  if (exported_ != nullptr) return {};
  for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) {
    const std::size_t array = gradient_of(key, plain_->keys());
    PHUB_RETURN_IF_ERROR(runtime_.copy(host_->address(array), plain_->gradient(key),
                                       host_->bytes(array), Stream::kDownload));
  }
  return {};
}

void ParameterExchange::arrived(const KeyRange& keys) {
  if (exported_ != nullptr) return;
  for (std::size_t key = keys.first; key < keys.first + keys.count; ++key) {
    host_->from_device_side(gradient_of(key, plain_->keys()));
  }
}

}  // namespace phub::nn::cuda
