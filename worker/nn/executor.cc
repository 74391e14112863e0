#include "worker/nn/executor.h"

#include <string>

#include "common/base/check.h"

namespace phub::nn {

std::vector<TypedBinding> as_typed(std::span<const Binding> bindings) {
  std::vector<TypedBinding> typed;
  for (const Binding& binding : bindings) {
    typed.push_back({std::as_bytes(binding.parameter), std::as_writable_bytes(binding.gradient)});
  }
  return typed;
}

Status check_bindings(const std::vector<ParameterSpec>& parameters, const TypedBindings& bindings) {
  PHUB_CHECK(bindings.keys.size() == parameters.size(), "one binding for each parameter");
  for (std::size_t key = 0; key < parameters.size(); ++key) {
    const std::uint64_t elements = parameters[key].elements();
    const std::uint64_t bytes = elements * size_of(bindings.type);
    const TypedBinding& binding = bindings.keys[key];
    if (binding.parameter.size() == bytes && binding.gradient.size() == bytes) continue;
    return {Code::kInvalidArgument, "parameter " + parameters[key].name + " has " +
                                        std::to_string(elements) + " elements: bind it to as many"};
  }
  return {};
}

Status Executor::bind(std::span<const Binding> bindings) {
  const std::vector<TypedBinding> typed = as_typed(bindings);
  return bind_typed({.type = DataType::kFloat32, .keys = typed});
}

}  // namespace phub::nn
