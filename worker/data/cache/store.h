// Contents of samples that are slow to get, kept in files that processes share.
//
// A content is never replaced, unless it is damaged or of no use. Any thread of any process may
// find and keep. Two that keep the same sample at the same time lose the space of one copy. A
// process that ends anywhere leaves whole contents and gaps. What cannot be kept is noted once, and
// is no error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "worker/data/cache/store_format.h"

namespace phub::data::cache {

// What is kept: another number or another kind of content is another store.
struct StoreSubject {
  std::uint64_t samples = 0;
  std::uint64_t number = 0;  // SampleSet::fingerprint
  std::string content;       // "encoded", "decoded"; a part of the folder's name
  std::string about;         // for people: where the samples come from
};

struct StorePlace {
  std::filesystem::path folder;  // of all stores; it exists
  std::uint64_t bytes_max = 0;   // of all contents in it
  std::string field;             // of the configuration, for notes
  bool is_temporary = false;     // the last process that closes it removes it
};

class SampleStore {
 public:
  using Note = std::function<void(std::string_view)>;

  // Opens the store of that subject, or makes it. One that is damaged is made anew, which is noted.
  // Errors: kFailedPrecondition for one of another version, with the cure; those of FolderLock and
  // of the file system.
  static Result<std::unique_ptr<SampleStore>> open(const StoreSubject& subject,
                                                   const StorePlace& place, Note note);
  ~SampleStore();
  SampleStore(const SampleStore&) = delete;
  SampleStore& operator=(const SampleStore&) = delete;

  // REQUIRES, here and below: sample < the subject's samples. Nothing: it is not kept.
  std::optional<StoreEntry> find(std::uint64_t sample) const;
  // A part of a content, which is not compared with its checksum. False: it is damaged.
  bool read(const StoreEntry& entry, std::uint64_t offset, std::span<std::uint8_t> into) const;
  // The whole content, compared with its checksum. Nothing: it is not kept, or damaged.
  std::optional<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                                    std::vector<std::uint8_t>& buffer) const;

  // Keeps a content, if there is room.
  void keep(std::uint64_t sample, std::span<const std::uint8_t> content);
  // Keeps a content in the place of one that is of no use, whose space remains a gap. Without room
  // the sample is not kept any more. Does nothing where the contents are the same.
  void replace(std::uint64_t sample, std::span<const std::uint8_t> content);

  std::uint64_t kept() const { return kept_.load(std::memory_order_relaxed); }  // by this object

 private:
  SampleStore(const StoreSubject& subject, StorePlace place, Note note);

  Status open_files();
  Status lock_index() const;
  Status make_files() const;
  bool write(std::uint64_t sample, std::span<const std::uint8_t> content);
  std::optional<std::uint64_t> place_for(std::uint64_t bytes);
  bool grow(std::uint64_t bytes);
  void stop(const std::string& why);

  const StoreSubject subject_;
  const StorePlace place_;
  const Note note_;
  const std::filesystem::path path_;
  UniqueFd index_, data_;
  std::mutex mutex_;
  std::uint64_t next_ = 0, end_ = 0;  // what this process may still write: a part of the data
  std::atomic<std::uint64_t> kept_{0};
  std::chrono::steady_clock::time_point locks_again_{};  // when the folder's lock is asked for next
  std::atomic<bool> is_over_ = false;                    // nothing more is kept
};

}  // namespace phub::data::cache
