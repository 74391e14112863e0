#include "worker/cuda/planned/measurement_buffers.h"

#include <algorithm>
#include <cstdint>

#include "worker/cuda/lowered/memory_plan.h"
#include "worker/cuda/tuning/measurement_noise.h"

namespace phub::nn::cuda {
namespace {

constexpr std::size_t kNoiseBytes = std::size_t{1} << 20U;  // what is longer repeats them

Result<std::uint64_t> cache_bytes() {
  int device = 0;
  int bytes = 0;
  PHUB_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "the device"));
  PHUB_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device),
                                   "the device's cache"));
  return static_cast<std::uint64_t>(std::max(bytes, 0));
}

}  // namespace

Status MeasurementBuffers::fill(void* to, ElementType type, std::size_t bytes) {
  std::vector<std::byte>& noise = noise_[type];
  if (noise.empty()) noise = measurement_noise(type, kNoiseBytes, 1);
  std::size_t done = std::min(bytes, noise.size());
  PHUB_RETURN_IF_ERROR(
      cuda_status(cudaMemcpy(to, noise.data(), done, cudaMemcpyHostToDevice), "noise"));
  while (done < bytes) {
    const std::size_t more = std::min(done, bytes - done);
    PHUB_RETURN_IF_ERROR(cuda_status(
        cudaMemcpy(static_cast<std::byte*>(to) + done, to, more, cudaMemcpyDeviceToDevice),
        "noise"));
    done += more;
  }
  return cuda_status(cudaStreamSynchronize(nullptr), "noise");
}

Result<std::vector<std::vector<void*>>> MeasurementBuffers::sets(const GraphStep& step,
                                                                 const std::vector<void*>& own) {
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t cache, cache_bytes());
  const std::size_t bytes = device_bytes(step.graph);
  std::size_t count = rotations(bytes, cache);
  if (count > 1 && (copies_ == nullptr || copies_->bytes < (count - 1) * bytes)) {
    copies_.reset();
    auto made = allocate((count - 1) * bytes, "measuring on several copies");
    if (made) copies_ = std::move(*made);
    if (!made && made.error().code() != Code::kResourceExhausted) return made.error();
    if (!made) count = 1;
  }
  std::vector<std::vector<void*>> all{own};
  for (std::size_t set = 1; set < count; ++set) all.emplace_back();
  std::size_t operand = 0, offset = 0;
  for (const Operand& each : step.graph.operands()) {
    if (each.storage != Storage::kDevice) continue;
    const std::size_t length = operand_bytes(each);
    for (std::size_t set = 0; set < count; ++set) {
      if (set > 0) all[set].push_back(copies_->as<std::byte>((set - 1) * bytes + offset));
      PHUB_RETURN_IF_ERROR(fill(all[set][operand], each.type, length));
    }
    ++operand;
    offset += aligned_bytes(length);
  }
  return all;
}

}  // namespace phub::nn::cuda
