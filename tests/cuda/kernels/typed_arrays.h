// Parameters and gradients in the type that travels, for executors that are bound to such arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "kernels/cuda/host_array.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda::testing {

// One of each for every array of `parameters`; these are left as `type` rounds them, so that who
// computes in fp32 starts from the same numbers.
class TypedArrays {
 public:
  TypedArrays(DataType type, std::vector<std::vector<float>>& parameters) : type_(type) {
    for (std::vector<float>& values : parameters) {
      parameters_.emplace_back(values.size() * size_of(type));
      gradients_.emplace_back(values.size() * size_of(type));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        kernels::cuda::reference::store(parameters_.back().data(), type, at, values[i]);
        values[i] = kernels::cuda::reference::load(parameters_.back().data(), type, at);
      }
    }
  }

  std::vector<TypedBinding> bindings() {
    std::vector<TypedBinding> all;
    for (std::size_t key = 0; key < parameters_.size(); ++key) {
      all.push_back({parameters_[key], gradients_[key]});
    }
    return all;
  }

  std::vector<float> gradient(std::size_t key) const {
    std::vector<float> values(gradients_[key].size() / size_of(type_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = kernels::cuda::reference::load(gradients_[key].data(), type_,
                                                 static_cast<std::int64_t>(i));
    }
    return values;
  }

 private:
  DataType type_;
  std::vector<std::vector<std::byte>> parameters_, gradients_;
};

}  // namespace phub::nn::cuda::testing
