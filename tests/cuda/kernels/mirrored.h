// Arrays that are on the host and on the device, for comparing a kernel with its specification.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "common/base/dtype.h"
#include "kernels/cuda/host_array.h"
#include "kernels/cuda/network_kernels.h"
#include "kernels/cuda/network_reference.h"
#include "kernels/cuda/training_kernels.h"
#include "kernels/cuda/training_reference.h"

namespace phub::testing {

enum class Side { kHost, kDevice };

inline void require_cuda(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

// Elements of a plain type. The device's copy is what the host's was at upload().
template <typename T>
class Mirrored {
 public:
  explicit Mirrored(std::vector<T> values) : host_(std::move(values)) {
    require_cuda(cudaMalloc(&device_, bytes()));
    upload();
  }
  Mirrored(const Mirrored&) = delete;
  Mirrored& operator=(const Mirrored&) = delete;
  ~Mirrored() { cudaFree(device_); }

  T* at(Side side) { return side == Side::kHost ? host_.data() : static_cast<T*>(device_); }
  std::vector<T>& host() { return host_; }
  void upload() {
    require_cuda(cudaMemcpy(device_, host_.data(), bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const {
    std::vector<T> values(host_.size());
    require_cuda(cudaMemcpy(values.data(), device_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes() const { return host_.size() * sizeof(T); }

  std::vector<T> host_;
  void* device_ = nullptr;
};

// Random numbers from `lowest` to 1, stored as `type`.
class MirroredReals {
 public:
  MirroredReals(std::size_t elements, DataType type, unsigned seed = 1, float lowest = -1.0F)
      : type_(type), bytes_(filled(elements, type, seed, lowest)) {}

  void* at(Side side) { return bytes_.at(side); }
  float* floats(Side side) { return reinterpret_cast<float*>(bytes_.at(side)); }
  // Compares after both sides have run: within `tolerance` of the largest element.
  void check(double tolerance) {
    const std::vector<std::byte> device = bytes_.download();
    const auto elements = static_cast<std::int64_t>(device.size() / size_of(type_));
    double largest = 0.0, worst = 0.0;
    for (std::int64_t i = 0; i < elements; ++i) {
      const double expected = double{load(bytes_.host().data(), i)};
      largest = std::max(largest, std::abs(expected));
      const double difference = std::abs(double{load(device.data(), i)} - expected);
      if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
    }
    INFO("differs by " << worst << ", the largest is " << largest);
    CHECK(worst <= tolerance * largest);
  }

 private:
  float load(const std::byte* array, std::int64_t index) const {
    return kernels::cuda::reference::load(array, type_, index);
  }
  static std::vector<std::byte> filled(std::size_t elements, DataType type, unsigned seed,
                                       float lowest) {
    std::vector<std::byte> bytes(elements * size_of(type));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(lowest, 1.0F);
    for (std::size_t i = 0; i < elements; ++i) {
      kernels::cuda::reference::store(bytes.data(), type, static_cast<std::int64_t>(i),
                                      uniform(random));
    }
    return bytes;
  }

  DataType type_;
  Mirrored<std::byte> bytes_;
};

// Runs a kernel's specification and the kernel; `arguments_on(Side)` are over that side's memory.
template <typename ArgumentsOn>
void run_both(const ArgumentsOn& arguments_on) {
  kernels::cuda::reference::run(arguments_on(Side::kHost));
  require_cuda(kernels::cuda::run(arguments_on(Side::kDevice), nullptr));
}

}  // namespace phub::testing
