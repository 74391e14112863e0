#include "worker/data/cache/open.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "worker/data/cache/cached_set.h"
#include "worker/data/cache/folder.h"

namespace phub::data::cache {
namespace {

constexpr const char* kDiskField = "data.cache.path";
constexpr const char* kMemoryField = "data.cache.memory_mib";

// What may be written there. tmpfs takes it until the host has no memory: what is promised must be
// there.
Result<std::uint64_t> shared_memory_of(const std::filesystem::path& folder,
                                       const CacheOptions& options) {
  const std::uint64_t wanted = options.memory_bytes;
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) return errno_status("statvfs of " + folder.native());
  const std::uint64_t free = std::uint64_t{found.f_bavail} * found.f_frsize + bytes_in(folder);
  if (free >= wanted || options.takes_what_is_free) return std::min(free, wanted);
  return Status(Code::kResourceExhausted,
                fmt::format("{}: {} MiB, and {} has {} MiB for it: lower it, or give the host or "
                            "the container more shared memory (docker run --shm-size)",
                            kMemoryField, wanted >> 20U, folder.native(), free >> 20U));
}

Result<std::unique_ptr<SampleStore>> store_on_disk(const StoreSubject& subject,
                                                   const CacheOptions& options,
                                                   SampleStore::Note note) {
  const Status made = make_folder(options.path, false);
  if (!made.ok()) return made.with_context(kDiskField);
  auto store = SampleStore::open(
      subject, {.folder = options.path, .bytes_max = options.disk_bytes, .field = kDiskField},
      std::move(note));
  if (!store) return store.error().with_context(kDiskField);
  return store;
}

// A shard is a sample of the store.
class KeptIndexes final : public IndexStore {
 public:
  explicit KeptIndexes(std::unique_ptr<SampleStore> store) : store_(std::move(store)) {}

  std::optional<std::span<const std::uint8_t>> find(
      std::uint64_t shard, std::vector<std::uint8_t>& buffer) const override {
    return store_->read(shard, buffer);
  }
  void keep(std::uint64_t shard, std::span<const std::uint8_t> content) override {
    store_->keep(shard, content);
  }

 private:
  std::unique_ptr<SampleStore> store_;
};

}  // namespace

Result<std::unique_ptr<SampleSet>> with_copies(std::unique_ptr<SampleSet> set,
                                               const CacheOptions& options,
                                               const std::string& about, SampleStore::Note note) {
  if (options.path.empty()) return set;
  PHUB_ASSIGN_OR_RETURN(auto store, store_on_disk({.samples = set->samples(),
                                                   .number = set->fingerprint(),
                                                   .content = "encoded",
                                                   .about = about},
                                                  options, std::move(note)));
  return cached_set(std::move(set), std::move(store));
}

OpenIndexStore kept_indexes(const CacheOptions& options, const std::string& about,
                            const SampleStore::Note& note) {
  if (options.path.empty()) return {};
  return [=](std::uint64_t shards, std::uint64_t number) -> Result<std::unique_ptr<IndexStore>> {
    PHUB_ASSIGN_OR_RETURN(
        auto store,
        store_on_disk({.samples = shards, .number = number, .content = "index", .about = about},
                      options, note));
    return std::unique_ptr<IndexStore>(std::make_unique<KeptIndexes>(std::move(store)));
  };
}

Result<std::unique_ptr<SampleStore>> decoded_store(const SampleSet& set,
                                                   const CacheOptions& options,
                                                   std::uint32_t channels, const std::string& about,
                                                   SampleStore::Note note) {
  if (options.memory_bytes == 0 || !options.keeps_decoded) return std::unique_ptr<SampleStore>();
  const std::filesystem::path folder = memory_folder();
  const Status made = make_folder(folder, true);
  if (!made.ok()) return made.with_context(kMemoryField);
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes_max, shared_memory_of(folder, options));
  auto store = SampleStore::open(
      {.samples = set.samples(),
       .number = set.fingerprint(),
       .content = fmt::format("decoded-{}-{}", channels, options.decoded_side),
       .about = about},
      {.folder = folder, .bytes_max = bytes_max, .field = kMemoryField, .is_temporary = true},
      std::move(note));
  if (!store) return store.error().with_context(kMemoryField);
  return store;
}

}  // namespace phub::data::cache
