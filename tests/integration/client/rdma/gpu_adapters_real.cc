#include "tests/support/transports/gpu_adapters.h"

namespace phub {

GpuAdapters::GpuAdapters() = default;
GpuAdapters::~GpuAdapters() = default;

}  // namespace phub
