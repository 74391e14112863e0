// Adapters that read a "GPU's" memory (walled_memory.h) by its dma-buf, while an object lives: the
// fake's, or real ones with memfd_dmabuf.cc. Each executable links a definition.
#pragma once

namespace phub {

struct GpuAdapters {
  GpuAdapters();
  ~GpuAdapters();
  GpuAdapters(const GpuAdapters&) = delete;
  GpuAdapters& operator=(const GpuAdapters&) = delete;
};

}  // namespace phub
