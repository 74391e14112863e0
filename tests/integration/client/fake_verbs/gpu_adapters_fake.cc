#include "tests/support/transports/fake_verbs.h"
#include "tests/support/transports/gpu_adapters.h"

namespace phub {

GpuAdapters::GpuAdapters() {
  fake_verbs::reset();
  fake_verbs::behaviour().dmabuf = true;
}
GpuAdapters::~GpuAdapters() { fake_verbs::reset(); }

}  // namespace phub
