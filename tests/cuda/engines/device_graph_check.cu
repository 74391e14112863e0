#include <cuda_runtime_api.h>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/cuda/elements.cuh"
#include "tests/cuda/engines/device_graph_check.h"
#include "tests/cuda/engines/graph_check.h"

namespace phub::testing {
namespace {

using naive::Index;
using naive::kPartialSums;
namespace device = kernels::cuda;

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

template <typename Work>
__global__ void run_each(Work work) {
  const Index size = work.size();
  for (Index i = device::first_index(); i < size; i += device::index_stride()) work(i);
}

constexpr int kStreams = 32;  // sums of a block, neighbours
constexpr int kWarps = 32;    // which share the terms of each

template <typename Work>
__global__ void __launch_bounds__(kStreams* kWarps) run_sums(Work work) {
  __shared__ double firsts[kWarps][kStreams + 1], seconds[kWarps][kStreams + 1];
  const Index sum = Index{blockIdx.x} * kStreams + threadIdx.x;
  const Index terms = work.terms();
  double first = 0.0, second = 0.0;
  if (sum < work.sums()) {
    for (Index term = threadIdx.y; term < terms; term += kWarps) {
      work.add(sum, term, first, second);
    }
  }
  firsts[threadIdx.y][threadIdx.x] = first;
  seconds[threadIdx.y][threadIdx.x] = second;
  __syncthreads();
  if (threadIdx.y != 0 || sum >= work.sums()) return;
  for (int warp = 1; warp < kWarps; ++warp) {
    first += firsts[warp][threadIdx.x];
    second += seconds[warp][threadIdx.x];
  }
  work.finish(sum, first, second);
}

class Device {
 public:
  struct Memory {
    static __device__ DataType stored(nn::cuda::ElementType type) {
      using nn::cuda::ElementType;
      return type == ElementType::kFloat16    ? DataType::kFloat16
             : type == ElementType::kBfloat16 ? DataType::kBfloat16
                                              : DataType::kFloat32;
    }
    static __device__ float load(const void* array, nn::cuda::ElementType type, Index i) {
      return device::load(array, stored(type), i);
    }
    static __device__ void store(void* array, nn::cuda::ElementType type, Index i, float value) {
      device::store(array, stored(type), i, value);
    }
  };
  class Array {
   public:
    explicit Array(std::size_t elements) {
      float* memory = nullptr;
      require(cudaMalloc(&memory, elements * sizeof(float)), "memory of a naive tensor");
      memory_.reset(memory);
    }
    float* data() const { return memory_.get(); }

   private:
    struct Free {
      void operator()(float* memory) const { (void)cudaFree(memory); }
    };
    std::unique_ptr<float, Free> memory_;
  };

  Device() {
    require(cudaMallocManaged(&numbers_, 2 * kPartialSums * sizeof(double)), "memory of sums");
  }
  ~Device() { (void)cudaFree(numbers_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Array make(std::size_t elements) const { return Array(elements); }
  template <typename Work>
  void each(const Work& work) {
    run_each<<<device::kBlocksMax, device::kThreads>>>(work);
    require(cudaDeviceSynchronize(), "a naive operation");
  }
  template <typename Work>
  void sum(const Work& work) {
    const auto blocks = static_cast<unsigned>((work.sums() + kStreams - 1) / kStreams);
    run_sums<<<blocks, dim3(kStreams, kWarps)>>>(work);
    require(cudaDeviceSynchronize(), "naive sums");
  }
  std::array<double*, 2> numbers() { return {numbers_, numbers_ + kPartialSums}; }
  double total(std::size_t which) const {
    const double* first = numbers_ + which * kPartialSums;
    return std::accumulate(first, first + kPartialSums, 0.0);
  }

 private:
  double* numbers_ = nullptr;
};

}  // namespace

Result<GraphsChecked> check_graphs_on_device(
    const nn::cuda::Lowered& lowered, const std::function<void*(nn::cuda::BufferId)>& address,
    const std::function<Status(nn::cuda::Pass, std::size_t)>& run,
    const StepComparison::Channels& channels) {
  Device machine;
  naive::GraphCheck<Device> check(machine, lowered, address, run);
  PHUB_ASSIGN_OR_RETURN(std::vector<Difference> differences, check.run(channels));
  return GraphsChecked{std::move(differences), check.checked()};
}

}  // namespace phub::testing
