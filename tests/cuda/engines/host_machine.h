// The host as the machine of naive_graph.h. Buffers of any type are fp32 in memory, each element
// rounded to the type when it is stored.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/cuda/engines/graph_check.h"
#include "tests/cuda/support/rounding_device.h"

namespace phub::testing::naive {

class HostMachine {
 public:
  struct Memory {
    static float load(const void* array, nn::cuda::ElementType, Index i) {
      return static_cast<const float*>(array)[i];
    }
    static void store(void* array, nn::cuda::ElementType type, Index i, float value) {
      static_cast<float*>(array)[i] = rounded(value, type);
    }
  };
  class Array {
   public:
    explicit Array(std::size_t elements) : values_(elements, NAN) {}
    float* data() { return values_.data(); }
    const float* data() const { return values_.data(); }

   private:
    std::vector<float> values_;
  };

  Array make(std::size_t elements) const { return Array(elements); }
  template <typename Work>
  void each(const Work& work) {
    for (Index i = 0; i < work.size(); ++i) work(i);
  }
  template <typename Work>
  void sum(const Work& work) {
    for (Index i = 0; i < work.sums(); ++i) {
      double first = 0.0, second = 0.0;
      for (Index term = 0; term < work.terms(); ++term) work.add(i, term, first, second);
      work.finish(i, first, second);
    }
  }
  std::array<double*, 2> numbers() { return {numbers_[0].data(), numbers_[1].data()}; }
  double total(std::size_t which) const {
    return std::accumulate(numbers_[which].begin(), numbers_[which].end(), 0.0);
  }

 private:
  std::array<std::array<double, kPartialSums>, 2> numbers_ = {};
};

}  // namespace phub::testing::naive
