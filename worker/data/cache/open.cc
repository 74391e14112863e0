#include "worker/data/cache/open.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <utility>

#include "worker/data/cache/cached_set.h"
#include "worker/data/cache/folder.h"

namespace phub::data::cache {
namespace {

constexpr const char* kDiskField = "data.cache.path";
constexpr const char* kMemoryField = "data.cache.memory_mib";

// tmpfs takes what is written until the host has no memory: what is promised must be there.
Status check_shared_memory(const std::filesystem::path& folder, std::uint64_t wanted) {
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) return errno_status("statvfs of " + folder.native());
  const std::uint64_t free = std::uint64_t{found.f_bavail} * found.f_frsize + bytes_in(folder);
  if (free >= wanted) return {};
  return {Code::kResourceExhausted,
          fmt::format("{}: {} MiB, and {} has {} MiB for it: lower it, or give the host or the "
                      "container more shared memory (docker run --shm-size)",
                      kMemoryField, wanted >> 20U, folder.native(), free >> 20U)};
}

}  // namespace

Result<std::unique_ptr<SampleSet>> with_copies(std::unique_ptr<SampleSet> set,
                                               const CacheOptions& options,
                                               const std::string& about, SampleStore::Note note) {
  if (options.path.empty()) return set;
  const Status made = make_folder(options.path, false);
  if (!made.ok()) return made.with_context(kDiskField);
  auto store = SampleStore::open(
      {.samples = set->samples(),
       .number = set->fingerprint(),
       .content = "encoded",
       .about = about},
      {.folder = options.path, .bytes_max = options.disk_bytes, .field = kDiskField},
      std::move(note));
  if (!store) return store.error().with_context(kDiskField);
  return cached_set(std::move(set), std::move(*store));
}

Result<std::unique_ptr<SampleStore>> decoded_store(const SampleSet& set,
                                                   const CacheOptions& options,
                                                   std::uint32_t channels, const std::string& about,
                                                   SampleStore::Note note) {
  if (options.memory_bytes == 0 || !options.keeps_decoded) return std::unique_ptr<SampleStore>();
  const std::filesystem::path folder = memory_folder();
  const Status made = make_folder(folder, true);
  if (!made.ok()) return made.with_context(kMemoryField);
  PHUB_RETURN_IF_ERROR(check_shared_memory(folder, options.memory_bytes));
  auto store =
      SampleStore::open({.samples = set.samples(),
                         .number = set.fingerprint(),
                         .content = fmt::format("decoded-{}-{}", channels, options.decoded_side),
                         .about = about},
                        {.folder = folder,
                         .bytes_max = options.memory_bytes,
                         .field = kMemoryField,
                         .is_temporary = true},
                        std::move(note));
  if (!store) return store.error().with_context(kMemoryField);
  return store;
}

}  // namespace phub::data::cache
