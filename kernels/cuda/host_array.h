// Elements of a typed array on the host, as fp32. For the scalar specifications.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/reference.h"

namespace phub::kernels::cuda::reference {

inline float load(const void* array, DataType type, std::int64_t index) {
  return kernels::reference::load(static_cast<const std::byte*>(array), type,
                                  static_cast<std::size_t>(index));
}

inline void store(void* array, DataType type, std::int64_t index, float value) {
  kernels::reference::store(static_cast<std::byte*>(array), type, static_cast<std::size_t>(index),
                            value);
}

}  // namespace phub::kernels::cuda::reference
