// What the GPUs of a worker do together: sums of gradients, gathering of parameters.
//
// NcclCollectives (nccl_collectives.h) is NCCL's; tests have one for the host's runtimes. A call
// queues the work of all ranks at once, since one thread drives them: work that is queued for one
// rank alone would wait for the others'. Used by the executor's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

// All in place and queued on `stream` of every rank, behind what is there. regions[rank] is memory
// of that rank's GPU. Where a rank's stream goes on, its own region is done and has been read by
// all.
class Collectives {
 public:
  Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives() = default;

  virtual std::size_t ranks() const = 0;
  // A region has a slice for each rank. Rank r's slice r becomes the sum of everyone's slice r,
  // rounded to `type` on the way (NCCL: as its algorithm does, which depends on its version and on
  // how GPUs are connected); its other slices stay as they are.
  virtual Status reduce_scatter(std::span<void* const> regions, std::size_t slice_elements,
                                DataType type, Stream stream) = 0;
  // Likewise; everyone's slice r becomes rank r's.
  virtual Status all_gather(std::span<void* const> regions, std::size_t slice_bytes,
                            Stream stream) = 0;
  // Every region becomes the sum of all, the same bits everywhere.
  virtual Status all_reduce(std::span<void* const> regions, std::size_t elements, DataType type,
                            Stream stream) = 0;

  // Whether what was queued can still end well. Returns at once. Errors name the GPU.
  virtual Status check() = 0;
  // Ends what was queued, whatever it has written; nothing can be queued from then on.
  virtual void abort() = 0;
};

}  // namespace phub::nn::cuda
