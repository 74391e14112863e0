#include "tests/cuda/support/host_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_array.h"

namespace phub::testing {
namespace {

// Element `index` of the regions, added up in the order of ranks.
void sum(const std::vector<std::vector<std::byte>>& all, DataType type, std::size_t index,
         void* region) {
  const auto at = static_cast<std::int64_t>(index);
  kernels::cuda::reference::store(region, type, at,
                                  kernels::cuda::reference::load(all.front().data(), type, at));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const float before = kernels::cuda::reference::load(region, type, at);
    kernels::cuda::reference::store(
        region, type, at, before + kernels::cuda::reference::load(all[rank].data(), type, at));
  }
}

}  // namespace

Status HostCollectives::queue(std::span<void* const> regions, std::size_t bytes, Stream stream,
                              const Outcome& outcome) {
  ++collectives_;
  if (is_aborted_) return {Code::kInternal, "a collective after the abort"};
  if (collectives_ == options_.fails_at) {
    return {Code::kInternal, "GPU 1: the collective was refused"};
  }
  const std::vector<void*> own(regions.begin(), regions.end());
  std::vector<HostMachine::NodeId> needs;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const HostRuntime& runtime = *runtimes_[rank];
    if (runtime.is_capturing()) return {Code::kInternal, "a collective in a graph"};
    if (!runtime.reaches(own[rank], bytes)) {
      return {Code::kInternal, "a collective of memory that is not the device's"};
    }
    const auto& front = runtime.front(stream);
    needs.insert(needs.end(), front.begin(), front.end());
  }
  const auto all = std::make_shared<std::vector<Bytes>>();
  const auto read = [all, own, bytes] {
    for (const void* region : own) {
      const auto* begin = static_cast<const std::byte*>(region);
      all->emplace_back(begin, begin + bytes);
    }
  };
  const bool sticks = collectives_ == options_.sticks_at;
  const HostMachine::NodeId gathered = machine_->add({read, needs, sticks});
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const auto write = [all, outcome, rank, region = own[rank]] {
      if (!all->empty()) outcome(*all, rank, region);  // empty: it was aborted
    };
    runtimes_[rank]->set_front(stream, {machine_->add({write, {gathered}})});
  }
  return {};
}

Status HostCollectives::reduce_scatter(std::span<void* const> regions, std::size_t slice_elements,
                                       DataType type, Stream stream) {
  return queue(regions, ranks() * slice_elements * size_of(type), stream,
               [=](const std::vector<Bytes>& all, std::size_t rank, void* region) {
                 const std::size_t first = rank * slice_elements;
                 for (std::size_t i = first; i < first + slice_elements; ++i) {
                   sum(all, type, i, region);
                 }
               });
}

Status HostCollectives::all_gather(std::span<void* const> regions, std::size_t slice_bytes,
                                   Stream stream) {
  return queue(regions, ranks() * slice_bytes, stream,
               [=](const std::vector<Bytes>& all, std::size_t, void* region) {
                 for (std::size_t from = 0; from < all.size(); ++from) {
                   const std::size_t at = from * slice_bytes;
                   std::memcpy(static_cast<std::byte*>(region) + at, all[from].data() + at,
                               slice_bytes);
                 }
               });
}

Status HostCollectives::all_reduce(std::span<void* const> regions, std::size_t elements,
                                   DataType type, Stream stream) {
  return queue(regions, elements * size_of(type), stream,
               [=](const std::vector<Bytes>& all, std::size_t, void* region) {
                 for (std::size_t i = 0; i < elements; ++i) sum(all, type, i, region);
               });
}

void HostCollectives::abort() {
  is_aborted_ = true;
  machine_->release();
}

}  // namespace phub::testing
