#include "worker/cuda/group/nccl_collectives.h"

#include <thread>

#include "common/base/check.h"

namespace phub::nn::cuda {
namespace {

ncclDataType_t raw(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
    case DataType::kFloat32:
      break;
  }
  return ncclFloat32;
}

}  // namespace

Result<std::unique_ptr<NcclCollectives>> NcclCollectives::create(
    std::unique_ptr<NcclLibrary> library, std::vector<Rank> ranks,
    std::chrono::milliseconds timeout) {
  std::unique_ptr<NcclCollectives> collectives(
      new NcclCollectives(std::move(library), std::move(ranks), timeout));
  PHUB_RETURN_IF_ERROR(collectives->connect());
  return collectives;
}

NcclCollectives::~NcclCollectives() { NcclCollectives::abort(); }

Status NcclCollectives::connect() {
  ncclUniqueId id;
  PHUB_RETURN_IF_ERROR(
      library_->status((*library_)->get_unique_id(&id), "ncclGetUniqueId", nullptr));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return together("ncclCommInitRankConfig", [&](std::size_t rank) {
    return (*library_)->init_rank_config(&communicators_[rank], static_cast<int>(ranks_.size()), id,
                                         static_cast<int>(rank), &config);
  });
}

std::string NcclCollectives::name(std::size_t rank, const std::string& what) const {
  return "GPU " + std::to_string(ranks_[rank].device) + ": " + what;
}

Status NcclCollectives::together(const std::string& what,
                                 const std::function<ncclResult_t(std::size_t)>& call) {
  const NcclLibrary& nccl = *library_;
  PHUB_RETURN_IF_ERROR(nccl.status(nccl->group_start(), what, nullptr));
  Status called;
  for (std::size_t rank = 0; rank < ranks_.size() && called.ok(); ++rank) {
    called = ranks_[rank].runtime->make_current();
    if (!called.ok()) called = called.with_context(name(rank, what));
    if (called.ok()) called = nccl.status(call(rank), name(rank, what), communicators_[rank]);
  }
  const ncclResult_t ended = nccl->group_end();  // also when something failed: it ends the group
  PHUB_RETURN_IF_ERROR(called);
  PHUB_RETURN_IF_ERROR(nccl.status(ended, what, nullptr));
  return wait_queued(what);
}

Status NcclCollectives::wait_queued(const std::string& what) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = (*library_)->get_async_error(communicators_[rank], &state);
      const ncclResult_t worse = asked != ncclSuccess ? asked : state;
      PHUB_RETURN_IF_ERROR(library_->status(worse, name(rank, what), communicators_[rank]));
      if (worse == ncclSuccess) break;
      if (Clock::now() - start >= timeout_) {
        return {Code::kDeadlineExceeded,
                name(rank, what) + ": NCCL was not ready within " +
                    std::to_string(timeout_.count()) +
                    " ms (timeout_ms): NCCL_DEBUG=INFO tells what it waits for"};
      }
      std::this_thread::yield();
    }
  }
  return {};
}

Status NcclCollectives::reduce_scatter(std::span<void* const> regions, std::size_t slice_elements,
                                       DataType type, Stream stream) {
  PHUB_CHECK(regions.size() == ranks(), "a region for each rank");
  if (slice_elements == 0) return {};
  return together("ncclReduceScatter", [&](std::size_t rank) {
    void* own = static_cast<std::byte*>(regions[rank]) + rank * slice_elements * size_of(type);
    return (*library_)->reduce_scatter(regions[rank], own, slice_elements, raw(type), ncclSum,
                                       communicators_[rank],
                                       ranks_[rank].runtime->cuda_stream(stream));
  });
}

Status NcclCollectives::all_gather(std::span<void* const> regions, std::size_t slice_bytes,
                                   Stream stream) {
  PHUB_CHECK(regions.size() == ranks(), "a region for each rank");
  if (slice_bytes == 0) return {};
  return together("ncclAllGather", [&](std::size_t rank) {
    const void* own = static_cast<const std::byte*>(regions[rank]) + rank * slice_bytes;
    return (*library_)->all_gather(own, regions[rank], slice_bytes, ncclUint8, communicators_[rank],
                                   ranks_[rank].runtime->cuda_stream(stream));
  });
}

Status NcclCollectives::all_reduce(std::span<void* const> regions, std::size_t elements,
                                   DataType type, Stream stream) {
  PHUB_CHECK(regions.size() == ranks(), "a region for each rank");
  if (elements == 0) return {};
  return together("ncclAllReduce", [&](std::size_t rank) {
    return (*library_)->all_reduce(regions[rank], regions[rank], elements, raw(type), ncclSum,
                                   communicators_[rank], ranks_[rank].runtime->cuda_stream(stream));
  });
}

Status NcclCollectives::check() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (communicators_[rank] == nullptr) return {Code::kAborted, name(rank, "NCCL was aborted")};
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = (*library_)->get_async_error(communicators_[rank], &state);
    const ncclResult_t worse = asked != ncclSuccess ? asked : state;
    PHUB_RETURN_IF_ERROR(library_->status(worse, name(rank, "NCCL"), communicators_[rank]));
  }
  return {};
}

void NcclCollectives::abort() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ncclComm_t& communicator = communicators_[rank];
    if (communicator == nullptr) continue;
    static_cast<void>(ranks_[rank].runtime->make_current());
    static_cast<void>((*library_)->abort(communicator));
    communicator = nullptr;
  }
}

}  // namespace phub::nn::cuda
