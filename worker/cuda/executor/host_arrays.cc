#include "worker/cuda/executor/host_arrays.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace phub::nn::cuda {
namespace {

constexpr std::size_t kStagingAlignment = 64;

std::size_t address_of(const HostArray& array) {
  return reinterpret_cast<std::uintptr_t>(array.bytes.data());
}

std::size_t rounded_for_staging(std::size_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

Result<BlockPointer> register_range(Runtime& runtime, const PageRange& range) {
  const std::span<std::byte> pages(reinterpret_cast<std::byte*>(range.first),
                                   range.end - range.first);
  auto registered = runtime.register_host(pages, false);
  if (registered || !range.read_only) return registered;
  return runtime.register_host(pages, true);
}

}  // namespace

std::vector<PageRange> page_ranges(std::span<const HostArray> arrays, std::size_t page_bytes) {
  std::vector<PageRange> ranges;
  for (const HostArray& array : arrays) {
    const std::size_t start = address_of(array);
    const std::size_t end = start + array.bytes.size();
    ranges.push_back({start / page_bytes * page_bytes,
                      (end + page_bytes - 1) / page_bytes * page_bytes, array.read_only});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const PageRange& a, const PageRange& b) { return a.first < b.first; });
  std::vector<PageRange> merged;
  for (const PageRange& range : ranges) {
    // Neighbours of one kind too, so that an arena is one registration.
    const bool joins =
        !merged.empty() &&
        (range.first < merged.back().end ||
         (range.first == merged.back().end && range.read_only == merged.back().read_only));
    if (!joins) {
      merged.push_back(range);
      continue;
    }
    merged.back().end = std::max(merged.back().end, range.end);
    merged.back().read_only = merged.back().read_only && range.read_only;
  }
  return merged;
}

Result<std::unique_ptr<HostArrays>> HostArrays::create(
    Runtime& runtime, std::vector<HostArray> arrays,
    const std::function<void(std::string_view)>& note) {
  std::unique_ptr<HostArrays> made(new HostArrays(runtime, std::move(arrays)));
  PHUB_RETURN_IF_ERROR(made->place(note));
  return made;
}

Status HostArrays::place(const std::function<void(std::string_view)>& note) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<PageRange> failed;
  for (const PageRange& range : page_ranges(arrays_, page)) {
    auto registered = register_range(runtime_, range);
    if (registered) {
      registrations_.push_back(std::move(*registered));
      continue;
    }
    failed.push_back(range);
    note("the exchange's " + std::string(range.read_only ? "parameters" : "gradients") + " (" +
         std::to_string((range.end - range.first) >> 20U) +
         " MiB) cannot be pinned and are copied once more on the host: " +
         registered.error().message());
  }
  const auto is_staged = [&](const HostArray& array) {
    return std::any_of(failed.begin(), failed.end(), [&](const PageRange& range) {
      return address_of(array) >= range.first && address_of(array) < range.end;
    });
  };
  std::size_t bytes = 0;
  for (const HostArray& array : arrays_)
    bytes += is_staged(array) ? rounded_for_staging(array.bytes.size()) : 0;
  if (bytes > 0) {
    PHUB_ASSIGN_OR_RETURN(staging_, runtime_.pinned_memory(bytes, "the exchange's arrays"));
  }
  std::size_t offset = 0;
  for (const HostArray& array : arrays_) {
    places_.push_back(array.bytes.data());
    if (!is_staged(array)) continue;
    places_.back() = staging_->as<std::byte>(offset);
    offset += rounded_for_staging(array.bytes.size());
  }
  return {};
}

void HostArrays::to_device_side(std::size_t index) const {
  const std::span<std::byte> array = arrays_[index].bytes;
  if (places_[index] != array.data()) std::memcpy(places_[index], array.data(), array.size());
}

void HostArrays::from_device_side(std::size_t index) const {
  const std::span<std::byte> array = arrays_[index].bytes;
  if (places_[index] != array.data()) std::memcpy(array.data(), places_[index], array.size());
}

}  // namespace phub::nn::cuda
