// Runs lowered networks (worker/cuda/lowered/lowered.h) on the host: cuDNN's operations as its
// manual describes them, own kernels by their specification. Slow, plain and in fp32 throughout,
// whatever types the buffers have: the oracle of the lowering, where there is no GPU. Buffers lie
// where the memory plan puts them, so that two which share memory while both live show.
//
// Owned by one test; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/cuda/lowered/lowered.h"

namespace phub::testing {

class LoweredInterpreter {
 public:
  // `noise`: of the step, for dropout. Memory starts as NaN,
  // so that what is read before it is written shows.
  LoweredInterpreter(const nn::cuda::Lowered& lowered, std::uint64_t noise);

  std::span<float> buffer(nn::cuda::BufferId id) const { return buffers_[id]; }
  void run(const std::vector<nn::cuda::Step>& steps);
  void run(const nn::cuda::Step& step);
  // By layer: DropoutMask::key(). At first those of `noise`.
  std::span<std::uint64_t> dropout_keys() { return dropout_keys_; }
  std::span<float> memory() { return memory_; }

  // Between the exchange's plain arrays and padded buffers.
  void write_parameter(std::size_t key, std::span<const float> plain);
  std::vector<float> read_gradient(std::size_t key) const;
  // Between [image][row][column][channel] and padded channels.
  void write_image(nn::cuda::BufferId id, std::span<const float> plain, std::int64_t channels);
  std::vector<float> read_image(nn::cuda::BufferId id, std::int64_t channels) const;

 private:
  void fill(nn::cuda::BufferId id, float value);
  void run(const nn::cuda::GraphStep& step);
  void run(const nn::cuda::KernelStep& step, std::size_t layer);

  const nn::cuda::Lowered& lowered_;
  std::vector<std::uint64_t> dropout_keys_;
  std::vector<float> memory_;
  std::vector<std::span<float>> buffers_;
};

}  // namespace phub::testing
