// Memory of a device, a GPU's, that network adapters may be able to read.
//
// Its addresses are the device's: they are told to adapters and to kernels, and no CPU reads or
// writes there. Whoever uses it holds it; the last one to let go gives it back, so that it never
// goes while an adapter has it registered. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/unique_fd.h"

namespace phub {

struct ExportedMemory {
  ExportedMemory() = default;
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;
  virtual ~ExportedMemory() = default;

  std::span<std::byte> bytes;       // cleared to zeros when it was made
  UniqueFd dmabuf;                  // the same memory as a dma-buf; none: it is not one
  std::uint64_t dmabuf_offset = 0;  // of `bytes` in it
  std::string no_dmabuf;            // why there is none
};
using ExportedMemoryPointer = std::shared_ptr<const ExportedMemory>;

}  // namespace phub
