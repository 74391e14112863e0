// Collectives of GPUs of one host by NCCL, over NVLink or PCIe, whichever it finds.
//
// Communicators do not block: each call ends at the deadline, and what hangs on the GPUs can be
// aborted. The thread that made it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/cuda/group/collectives.h"
#include "worker/cuda/group/nccl_library.h"
#include "worker/cuda/runtime/cuda_runtime.h"

namespace phub::nn::cuda {

class NcclCollectives : public Collectives {
 public:
  struct Rank {
    std::uint32_t device = 0;
    CudaRuntime* runtime = nullptr;
  };

  // The runtimes outlive it. Errors name the GPU: kInternal with NCCL's words, kDeadlineExceeded.
  static Result<std::unique_ptr<NcclCollectives>> create(std::unique_ptr<NcclLibrary> library,
                                                         std::vector<Rank> ranks,
                                                         std::chrono::milliseconds timeout);
  ~NcclCollectives() override;

  std::size_t ranks() const override { return ranks_.size(); }
  Status reduce_scatter(std::span<void* const> regions, std::size_t slice_elements, DataType type,
                        Stream stream) override;
  Status all_gather(std::span<void* const> regions, std::size_t slice_bytes,
                    Stream stream) override;
  Status all_reduce(std::span<void* const> regions, std::size_t elements, DataType type,
                    Stream stream) override;
  Status check() override;
  void abort() override;

  const NcclLibrary& library() const { return *library_; }

 private:
  NcclCollectives(std::unique_ptr<NcclLibrary> library, std::vector<Rank> ranks,
                  std::chrono::milliseconds timeout)
      : library_(std::move(library)),
        ranks_(std::move(ranks)),
        timeout_(timeout),
        communicators_(ranks_.size()) {}

  Status connect();
  // Calls `call` for each rank, whose device is then the thread's, as one group of NCCL's; returns
  // when all of it is queued.
  Status together(const std::string& what, const std::function<ncclResult_t(std::size_t)>& call);
  Status wait_queued(const std::string& what);
  std::string name(std::size_t rank, const std::string& what) const;

  std::unique_ptr<NcclLibrary> library_;
  std::vector<Rank> ranks_;
  std::chrono::milliseconds timeout_;
  std::vector<ncclComm_t> communicators_;  // null: none, or aborted
};

}  // namespace phub::nn::cuda
