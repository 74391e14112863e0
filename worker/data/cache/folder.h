// A folder of stores, which processes and jobs share, and its limit.
//
// A process that makes, enlarges or removes stores holds the folder's lock. A process that uses a
// store holds a shared lock on its index, so nobody removes it. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::data::cache {

// While it lives, no other process changes the folder.
class FolderLock {
 public:
  // Error: kDeadlineExceeded when another process keeps it that long.
  static Result<FolderLock> take(const std::filesystem::path& folder,
                                 std::chrono::milliseconds patience = std::chrono::seconds(30));

 private:
  explicit FolderLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// What people are shown of a store.
struct StoreInfo {
  std::filesystem::path path;
  std::string about;
  std::uint64_t samples = 0;
  std::uint64_t kept = 0;   // of them
  std::uint64_t bytes = 0;  // of the limit; gaps included
  std::int64_t used_s = 0;  // when it was opened or written last, since 1970
  bool is_used = false;     // by a process now
  Status status{};          // why it cannot be read, with the cure
};

// Makes the folder, if it is not there. `is_private`: of this user alone, in a place where all
// users may write. Errors: kNotFound, kPermissionDenied where it is another's, or a link.
Status make_folder(const std::filesystem::path& folder, bool is_private);

// Where decoded images are kept: in shared memory, of this user alone.
std::filesystem::path memory_folder();

// The paths of the stores, in their names' order. None where there is no folder.
std::vector<std::filesystem::path> stores_in(const std::filesystem::path& folder);
// Reads the whole index.
StoreInfo look_at(const std::filesystem::path& store);

// The bytes of all stores' contents. REQUIRES, here and below: a FolderLock.
std::uint64_t bytes_in(const std::filesystem::path& folder);
// Stores that go. They lose their names at once, under the folder's lock. Their files are removed
// by the destructor, which may take long and needs no lock.
class Removal {
 public:
  Removal() = default;
  ~Removal();
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // Error: kFailedPrecondition while a process uses it.
  Status add(const std::filesystem::path& store);
  // What stopped processes have begun to make or to remove.
  void add_remnants(const std::filesystem::path& folder);

 private:
  std::vector<std::filesystem::path> gone_;
};

// Removes stores that nobody uses, the one that was used the longest ago first, until `bytes` more
// fit into `bytes_max`. False: they do not fit, and nothing more can be removed.
bool free_for(const std::filesystem::path& folder, std::uint64_t bytes, std::uint64_t bytes_max,
              Removal& removal);

struct VerifyReport {
  std::uint64_t samples = 0;  // that are kept
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> damaged{};
};
// Reads what is kept, and compares checksums. Errors: those of StoreInfo::status.
Result<VerifyReport> verify(const std::filesystem::path& store);

}  // namespace phub::data::cache
