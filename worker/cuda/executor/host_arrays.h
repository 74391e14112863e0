// The exchange's arrays, as a device can copy from and to them: registered with CUDA where that
// works, else through pinned memory of the same size.
//
// Made once the exchange's arrays are there, which outlive it. Used by the executor's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

// An array of a key.
struct HostArray {
  std::span<std::byte> bytes;
  bool read_only = false;  // parameters: they may be mapped so
};

// Whole pages, in ascending order, that no two ranges share.
struct PageRange {
  std::size_t first = 0, end = 0;  // addresses
  bool read_only = true;           // only such arrays are in it
};
std::vector<PageRange> page_ranges(std::span<const HostArray> arrays, std::size_t page_bytes);

class HostArrays {
 public:
  // `note` is told in a sentence what could not be registered.
  static Result<std::unique_ptr<HostArrays>> create(
      Runtime& runtime, std::vector<HostArray> arrays,
      const std::function<void(std::string_view)>& note);

  // What the device copies from and to, in place of array `index`.
  void* address(std::size_t index) const { return places_[index]; }
  std::size_t bytes(std::size_t index) const { return arrays_[index].bytes.size(); }

  // From the array to where the device reads it, before that; and back, after it has written. They
  // do nothing for what is registered.
  void to_device_side(std::size_t index) const;
  void from_device_side(std::size_t index) const;

 private:
  HostArrays(Runtime& runtime, std::vector<HostArray> arrays)
      : runtime_(runtime), arrays_(std::move(arrays)) {}

  Status place(const std::function<void(std::string_view)>& note);

  Runtime& runtime_;
  std::vector<HostArray> arrays_;
  std::vector<void*> places_;
  std::vector<BlockPointer> registrations_;
  BlockPointer staging_;
};

}  // namespace phub::nn::cuda
