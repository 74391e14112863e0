// The caches of a training's set, as its configuration wants them. At set-up; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/data/cache/store.h"
#include "worker/data/formats/index_store.h"
#include "worker/data/formats/sample_set.h"

namespace phub::data::cache {

struct CacheOptions {
  std::filesystem::path path{};     // of copies on a disk; empty: none
  std::uint64_t disk_bytes = 0;     // of all sets there
  std::uint64_t memory_bytes = 0;   // of all decoded images on this host; 0: none are kept
  bool keeps_decoded = true;        // false: images are decoded as if they were kept
  bool takes_what_is_free = false;  // where the host has less memory than memory_bytes
  std::uint32_t decoded_side = 0;   // see DecodedImages; 0: whole images
};

// `set`, or the set with copies on the disk. `about` says for people which set it is. Errors: those
// of SampleStore, kNotFound for a path that cannot be made.
Result<std::unique_ptr<SampleSet>> with_copies(std::unique_ptr<SampleSet> set,
                                               const CacheOptions& options,
                                               const std::string& about, SampleStore::Note note);

// Opens the index of a server's shards in `options.path`; nothing without one.
OpenIndexStore kept_indexes(const CacheOptions& options, const std::string& about,
                            const SampleStore::Note& note);

// Where decoded images of `set` are kept; null: nowhere. Errors: also kResourceExhausted, with the
// figures, where the host has less shared memory left and it may not take less.
Result<std::unique_ptr<SampleStore>> decoded_store(const SampleSet& set,
                                                   const CacheOptions& options,
                                                   std::uint32_t channels, const std::string& about,
                                                   SampleStore::Note note);

}  // namespace phub::data::cache
